"""The gradients of ``mhc_pre`` and ``mhc_head`` on the device: what all need of each token, then each of them.

- ``dz``: the gradient of alpha m + bias, of each mix
- ``f``: the gradient of the projection m / r, which is alpha dz r
- ``h_pre``: as in the forward
- ``slope``: what the root mean square adds to the gradient of v, as a factor of v
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64

from mhc.backends.cute.device import add_up, load, registers, rows, shared, sigmoid, store, vector_of, wide_row
from mhc.backends.cute.mhc_pre.forward import TOKENS
from mhc.backends.cute.sizes import THREADS

ROWS = 8  # of phi, whose sums a thread has in registers at a time
STAGE = 16  # terms of a sum over tokens that are added up before they join the others


@cute.jit
def _gate_of(gates: cute.Tensor, mix, sizes: cutlass.Constexpr):
    """Return the element of alpha that scales a mix."""
    gate = gates[0]
    if cutlass.const_expr(sizes.mixes > sizes.streams):
        gate = gates[cutlass.min(mix // sizes.streams, 2)]
    return gate


@cute.kernel
def mhc_pre_factors(
    x: cute.Pointer,
    alpha: cute.Pointer,
    bias: cute.Pointer,
    m: cute.Pointer,
    r: cute.Pointer,
    grad_h_in: cute.Pointer,
    grad_h_post: cute.Pointer,
    grad_h_res: cute.Pointer,
    dz: cute.Pointer,
    f: cute.Pointer,
    h_pre: cute.Pointer,
    slope: cute.Pointer,
    sizes: cutlass.Constexpr,
):
    """Write dz, f, h_pre and slope of one token."""
    n, mixes = cutlass.const_expr(sizes.streams), cutlass.const_expr(sizes.mixes)
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    token = Int64(block)
    partial, grad_h_pre = shared(n * THREADS), shared(n)
    products, product = shared(THREADS), shared(1)
    total = registers(n)
    streams, above = rows(x, token * n, n, sizes), rows(grad_h_in, token, 1, sizes)
    for pack in cutlass.range(thread, sizes.packs, THREADS):
        grad = load(above[0, pack, None])
        for i in cutlass.range_constexpr(sizes.streams):
            v = load(streams[i, pack, None])
            for k in cutlass.range_constexpr(sizes.vector):
                total[i] = total[i] + grad[k] * v[k]
    add_up(total, partial, grad_h_pre)
    gates, offsets = (
        vector_of(alpha, Int64(0), 1 if sizes.mixes == sizes.streams else 3),
        vector_of(bias, Int64(0), mixes),
    )
    mixed, norm = vector_of(m, token * mixes, mixes), vector_of(r, token, 1)[0]
    to_dz, to_f = vector_of(dz, token * mixes, mixes), vector_of(f, token * mixes, mixes)
    to_h_pre = vector_of(h_pre, token * n, n)
    own = registers(1)
    for o in cutlass.range(thread, mixes, THREADS):
        gate, mix = _gate_of(gates, o, sizes), mixed[o]
        s = sigmoid(gate * mix + offsets[o])
        grad = Float32(0.0)
        if o < n:
            to_h_pre[o] = s + sizes.pre_eps
            grad = grad_h_pre[o] * s * (1.0 - s)
        if cutlass.const_expr(sizes.mixes > sizes.streams):
            if o >= 2 * n:
                grad = vector_of(grad_h_res, token * (n * n), n * n)[o - 2 * n]
            elif o >= n:
                grad = sizes.post_scale * vector_of(grad_h_post, token * n, n)[o - n] * s * (1.0 - s)
        to_dz[o] = grad
        to_f[o] = gate * grad * norm
        own[0] = own[0] + gate * grad * mix
    add_up(own, products, product)
    if thread == 0:
        vector_of(slope, token, 1)[0] = product[0] * norm * norm / Float32(sizes.width)


@cute.kernel
def mhc_pre_grad_x(
    x: cute.Pointer,
    phi: cute.Pointer,
    gamma: cute.Pointer,
    grad_h_in: cute.Pointer,
    f: cute.Pointer,
    h_pre: cute.Pointer,
    slope: cute.Pointer,
    grad_x: cute.Pointer,
    tokens: Int32,
    sizes: cutlass.Constexpr,
):
    """Write gamma times (sum over o of f_o phi_o) - slope v + h_pre grad_h_in, of some tokens and a vector a thread."""
    n, mixes = cutlass.const_expr(sizes.streams), cutlass.const_expr(sizes.mixes)
    thread, _, _ = cute.arch.thread_idx()
    block, part, _ = cute.arch.block_idx()
    start, pack = block * TOKENS, part * THREADS + thread
    at = [Int64(cutlass.min(start + t, tokens - 1)) for t in range(TOKENS)]
    factors = shared(TOKENS * mixes)
    for t in cutlass.range_constexpr(TOKENS):
        of_token = vector_of(f, at[t] * mixes, mixes)
        for o in cutlass.range(thread, mixes, THREADS):
            factors[t * mixes + o] = of_token[o]
    cute.arch.sync_threads()
    if pack < n * sizes.packs:
        total = registers(TOKENS * sizes.vector)
        for o in cutlass.range(mixes):
            row = load(wide_row(phi, Int64(o), sizes)[pack, None])
            for t in cutlass.range_constexpr(TOKENS):
                for k in cutlass.range_constexpr(sizes.vector):
                    total[t * sizes.vector + k] = total[t * sizes.vector + k] + factors[t * mixes + o] * row[k]
        weight = registers(sizes.vector)
        weight.fill(1.0)
        if cutlass.const_expr(sizes.gamma):
            weight = load(wide_row(gamma, Int64(0), sizes)[pack, None])
        stream, column = pack // sizes.packs, pack % sizes.packs
        for t in cutlass.range_constexpr(TOKENS):
            if start + t < tokens:
                v = load(wide_row(x, at[t], sizes)[pack, None])
                above = load(rows(grad_h_in, at[t], 1, sizes)[0, column, None])
                read, pull = vector_of(h_pre, at[t] * n, n)[stream], vector_of(slope, at[t], 1)[0]
                grad = registers(sizes.vector)
                for k in cutlass.range_constexpr(sizes.vector):
                    grad[k] = weight[k] * total[t * sizes.vector + k] - pull * v[k] + read * above[k]
                store(grad, wide_row(grad_x, at[t], sizes)[pack, None])


@cute.kernel
def mhc_pre_sums(
    x: cute.Pointer, f: cute.Pointer, q: cute.Pointer, tokens: Int32, chunk: Int32, sizes: cutlass.Constexpr
):
    """Write q[chunk, o] = sum over the chunk's tokens of f_o v, for ``ROWS`` rows and a vector a thread."""
    mixes = cutlass.const_expr(sizes.mixes)
    thread, _, _ = cute.arch.thread_idx()
    part, number, layer = cute.arch.block_idx()
    pack, first = part * THREADS + thread, layer * ROWS
    begin = number * chunk
    end = cutlass.min(begin + chunk, tokens)
    own = cutlass.min(pack, sizes.streams * sizes.packs - 1)  # a thread without a vector repeats the last one
    total, stage = registers(ROWS * sizes.vector), registers(ROWS * sizes.vector)
    for staged in cutlass.range(begin, end, STAGE):
        stage.fill(0.0)
        for token in cutlass.range(staged, cutlass.min(staged + STAGE, end)):
            v = load(wide_row(x, Int64(token), sizes)[own, None])
            factors = vector_of(f, Int64(token) * mixes, mixes)
            for o in cutlass.range_constexpr(ROWS):
                factor = factors[cutlass.min(first + o, mixes - 1)]
                for k in cutlass.range_constexpr(sizes.vector):
                    stage[o * sizes.vector + k] = stage[o * sizes.vector + k] + factor * v[k]
        for i in cutlass.range_constexpr(ROWS * sizes.vector):
            total[i] = total[i] + stage[i]
    for o in cutlass.range_constexpr(ROWS):
        if first + o < mixes and pack < sizes.streams * sizes.packs:
            row = registers(sizes.vector)
            for k in cutlass.range_constexpr(sizes.vector):
                row[k] = total[o * sizes.vector + k]
            store(row, wide_row(q, Int64(number) * mixes + first + o, sizes)[pack, None])


@cute.kernel
def mhc_pre_grad_phi_gamma(
    q: cute.Pointer,
    phi: cute.Pointer,
    gamma: cute.Pointer,
    grad_phi: cute.Pointer,
    grad_gamma: cute.Pointer,
    chunks: Int32,
    sizes: cutlass.Constexpr,
):
    """Add the chunks up: grad_phi = q gamma, grad_gamma = sum over o of phi_o q_o. A thread has one column."""
    width, mixes = cutlass.const_expr(sizes.width), cutlass.const_expr(sizes.mixes)
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    column = block * THREADS + thread
    if column < width:
        weight = Float32(1.0)
        if cutlass.const_expr(sizes.gamma):
            weight = vector_of(gamma, Int64(0), width)[column]
        over_mixes = Float32(0.0)
        for o in cutlass.range(mixes):
            total = Float32(0.0)
            for number in cutlass.range(chunks):
                total = total + vector_of(q, (Int64(number) * mixes + o) * width, width)[column]
            vector_of(grad_phi, Int64(o) * width, width)[column] = total * weight
            over_mixes = over_mixes + total * vector_of(phi, Int64(o) * width, width)[column]
        vector_of(grad_gamma, Int64(0), width)[column] = over_mixes


@cute.kernel
def mhc_pre_grad_alpha_bias(
    dz: cute.Pointer,
    m: cute.Pointer,
    grad_alpha: cute.Pointer,
    grad_bias: cute.Pointer,
    tokens: Int32,
    sizes: cutlass.Constexpr,
):
    """Write grad_bias_o = sum over tokens of dz_o, in the first blocks, then grad_alpha of a gate in each."""
    n, mixes = cutlass.const_expr(sizes.streams), cutlass.const_expr(sizes.mixes)
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    partial, sums = shared(THREADS), shared(1)
    gate = block - mixes
    begin, end = block, block + 1
    if gate >= 0:
        begin, end = gate * n, gate * n + n
        if gate == 2:
            end = Int32(mixes)
    total, stage = registers(1), registers(1)
    for staged in cutlass.range(thread, tokens, STAGE * THREADS):
        stage[0] = 0.0
        last = cutlass.min(staged + STAGE * THREADS, tokens)
        for token in cutlass.range(staged, last, THREADS):
            of_dz, of_m = vector_of(dz, Int64(token) * mixes, mixes), vector_of(m, Int64(token) * mixes, mixes)
            term = Float32(0.0)
            for i in cutlass.range(begin, end):
                factor = Float32(1.0)
                if gate >= 0:
                    factor = of_m[i]
                term = term + of_dz[i] * factor
            stage[0] = stage[0] + term
        total[0] = total[0] + stage[0]
    add_up(total, partial, sums)
    gates = cutlass.const_expr(1 if sizes.mixes == sizes.streams else 3)
    to_alpha, to_bias = vector_of(grad_alpha, Int64(0), gates), vector_of(grad_bias, Int64(0), mixes)
    if thread == 0:
        if gate >= 0:
            to_alpha[gate] = sums[0]
        else:
            to_bias[block] = sums[0]
