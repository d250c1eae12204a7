"""``mhc_pre`` and ``mhc_head`` on the device; the latter has the mixes of h_pre alone.

A block has ``TOKENS`` tokens, so that what it loads of phi is used for each of them. A last block that is not full
repeats the last token, and does not store it again.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64

from mhc.backends.cute.device import add_up, load, registers, rows, shared, sigmoid, store, vector_of, wide_row
from mhc.backends.cute.sizes import THREADS

TOKENS = 4
_ROWS = 8  # of phi, whose sums a thread has in registers at a time
_SUMS = TOKENS * (_ROWS + 1)  # for each token the sums of the rows and of the squares


@cute.jit
def _project(
    x: cute.Pointer,
    phi: cute.Pointer,
    gamma: cute.Pointer,
    at: cutlass.Constexpr,
    first: cutlass.Constexpr,
    sizes: cutlass.Constexpr,
):
    """Return the thread's part of (v gamma) phi_o, for ``_ROWS`` rows of phi from ``first`` on, and of v²."""
    thread, _, _ = cute.arch.thread_idx()
    total = registers(_SUMS)
    tokens = [wide_row(x, at[t], sizes) for t in range(TOKENS)]
    matrix = [wide_row(phi, Int64(min(first + o, sizes.mixes - 1)), sizes) for o in range(_ROWS)]
    for pack in cutlass.range(thread, sizes.streams * sizes.packs, THREADS):
        v = [load(tokens[t][pack, None]) for t in range(TOKENS)]
        for t in cutlass.range_constexpr(TOKENS):
            for k in cutlass.range_constexpr(sizes.vector):
                square = t * (_ROWS + 1) + _ROWS
                total[square] = total[square] + v[t][k] * v[t][k]
        if cutlass.const_expr(sizes.gamma):
            weight = load(wide_row(gamma, Int64(0), sizes)[pack, None])
            for t in cutlass.range_constexpr(TOKENS):
                for k in cutlass.range_constexpr(sizes.vector):
                    v[t][k] = v[t][k] * weight[k]
        for o in cutlass.range_constexpr(_ROWS):
            row = load(matrix[o][pack, None])
            for t in cutlass.range_constexpr(TOKENS):
                for k in cutlass.range_constexpr(sizes.vector):
                    total[t * (_ROWS + 1) + o] = total[t * (_ROWS + 1) + o] + v[t][k] * row[k]
    return total


@cute.kernel
def mhc_pre_forward(
    x: cute.Pointer,
    phi: cute.Pointer,
    alpha: cute.Pointer,
    bias: cute.Pointer,
    gamma: cute.Pointer,
    h_in: cute.Pointer,
    h_post: cute.Pointer,
    h_res: cute.Pointer,
    m: cute.Pointer,
    r: cute.Pointer,
    tokens: Int32,
    sizes: cutlass.Constexpr,
):
    """Write the mixes, what they become, and h_in."""
    n, mixes = cutlass.const_expr(sizes.streams), cutlass.const_expr(sizes.mixes)
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    start = block * TOKENS
    at = [Int64(cutlass.min(start + t, tokens - 1)) for t in range(TOKENS)]
    partial, sums = shared(_SUMS * THREADS), shared(_SUMS)
    projected, h_pre = shared(TOKENS * mixes), shared(TOKENS * n)
    for first in cutlass.range_constexpr(0, sizes.mixes, _ROWS):
        add_up(_project(x, phi, gamma, at, first, sizes), partial, sums)
        if thread < TOKENS * _ROWS:
            t, o = thread // _ROWS, thread % _ROWS
            if first + o < mixes:
                projected[t * mixes + first + o] = sums[t * (_ROWS + 1) + o]
    cute.arch.sync_threads()
    gates, offsets = (
        vector_of(alpha, Int64(0), 1 if sizes.mixes == sizes.streams else 3),
        vector_of(bias, Int64(0), mixes),
    )
    for t in cutlass.range_constexpr(TOKENS):
        norm = 1.0 / cute.math.sqrt(sums[t * (_ROWS + 1) + _ROWS] / Float32(sizes.width) + sizes.norm_eps)
        is_stored = start + t < tokens
        if thread == 0 and is_stored:
            vector_of(r, at[t], 1)[0] = norm
        to_mixes = vector_of(m, at[t] * mixes, mixes)
        for o in cutlass.range(thread, mixes, THREADS):
            mix = projected[t * mixes + o] * norm
            gate = gates[0]
            if cutlass.const_expr(sizes.mixes > sizes.streams):
                gate = gates[cutlass.min(o // n, 2)]
            z = gate * mix + offsets[o]
            if o < n:
                h_pre[t * n + o] = sigmoid(z) + sizes.pre_eps
            if is_stored:
                to_mixes[o] = mix
                if cutlass.const_expr(sizes.mixes > sizes.streams):
                    if o >= 2 * n:
                        vector_of(h_res, at[t] * (n * n), n * n)[o - 2 * n] = z
                    elif o >= n:
                        vector_of(h_post, at[t] * n, n)[o - n] = sizes.post_scale * sigmoid(z)
    cute.arch.sync_threads()
    for t in cutlass.range_constexpr(TOKENS):
        if start + t < tokens:
            streams, target = rows(x, at[t] * n, n, sizes), rows(h_in, at[t], 1, sizes)
            for pack in cutlass.range(thread, sizes.packs, THREADS):
                total = registers(sizes.vector)
                for i in cutlass.range_constexpr(sizes.streams):
                    v = load(streams[i, pack, None])
                    for k in cutlass.range_constexpr(sizes.vector):
                        total[k] = total[k] + h_pre[t * n + i] * v[k]
                store(total, target[0, pack, None])
