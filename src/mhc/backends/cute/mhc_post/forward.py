"""``mhc_post`` on the device: a block has one token, and its threads share out the vectors of a row."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int64

from mhc.backends.cute.device import load, registers, rows, shared, store, vector_of
from mhc.backends.cute.sizes import THREADS


@cute.jit
def coefficients(h_post: cute.Pointer, h_res: cute.Pointer, token: Int64, sizes: cutlass.Constexpr):
    """Return h_res and h_post of a token, which the threads of the block have brought to shared memory."""
    n = cutlass.const_expr(sizes.streams)
    thread, _, _ = cute.arch.thread_idx()
    mapping, writing = shared(n * n), shared(n)
    of_token, writing_of_token = vector_of(h_res, token * (n * n), n * n), vector_of(h_post, token * n, n)
    for o in cutlass.range(thread, n * n, THREADS):
        mapping[o] = of_token[o]
    if thread < n:
        writing[thread] = writing_of_token[thread]
    cute.arch.sync_threads()
    return mapping, writing


@cute.kernel
def mhc_post_forward(
    x: cute.Pointer,
    y: cute.Pointer,
    h_post: cute.Pointer,
    h_res: cute.Pointer,
    out: cute.Pointer,
    sizes: cutlass.Constexpr,
):
    """Write out_i = sum over j of h_res[i, j] x_j, plus h_post_i y."""
    n = cutlass.const_expr(sizes.streams)
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    token = Int64(block)
    mapping, writing = coefficients(h_post, h_res, token, sizes)
    streams, target = rows(x, token * n, n, sizes), rows(out, token * n, n, sizes)
    layer = rows(y, token, 1, sizes)
    for pack in cutlass.range(thread, sizes.packs, THREADS):
        written = load(layer[0, pack, None])
        v = [load(streams[j, pack, None]) for j in range(n)]
        for i in cutlass.range_constexpr(sizes.streams):
            total = registers(sizes.vector)
            for k in cutlass.range_constexpr(sizes.vector):
                total[k] = writing[i] * written[k]
                for j in cutlass.range_constexpr(sizes.streams):
                    total[k] = total[k] + mapping[i * n + j] * v[j][k]
            store(total, target[i, pack, None])
