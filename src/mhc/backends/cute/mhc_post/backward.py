"""The gradients of ``mhc_post`` on the device: a block has one token."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int64

from mhc.backends.cute.device import add_up, load, registers, rows, shared, store, vector_of
from mhc.backends.cute.mhc_post.forward import coefficients
from mhc.backends.cute.sizes import THREADS

_SUMS = 40  # that a thread has in registers at a time


@cute.kernel
def mhc_post_grad_rows(
    grad_out: cute.Pointer,
    h_post: cute.Pointer,
    h_res: cute.Pointer,
    grad_x: cute.Pointer,
    grad_y: cute.Pointer,
    sizes: cutlass.Constexpr,
):
    """Write grad_x_j = sum over i of h_res[i, j] grad_out_i, and grad_y = sum over i of h_post_i grad_out_i."""
    n = cutlass.const_expr(sizes.streams)
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    token = Int64(block)
    mapping, writing = coefficients(h_post, h_res, token, sizes)
    source, to_streams = rows(grad_out, token * n, n, sizes), rows(grad_x, token * n, n, sizes)
    to_layer = rows(grad_y, token, 1, sizes)
    for pack in cutlass.range(thread, sizes.packs, THREADS):
        grad = [load(source[i, pack, None]) for i in range(n)]
        for j in cutlass.range_constexpr(sizes.streams):
            total = registers(sizes.vector)
            for k in cutlass.range_constexpr(sizes.vector):
                for i in cutlass.range_constexpr(sizes.streams):
                    total[k] = total[k] + mapping[i * n + j] * grad[i][k]
            store(total, to_streams[j, pack, None])
        read = registers(sizes.vector)
        for k in cutlass.range_constexpr(sizes.vector):
            for i in cutlass.range_constexpr(sizes.streams):
                read[k] = read[k] + writing[i] * grad[i][k]
        store(read, to_layer[0, pack, None])


@cute.kernel
def mhc_post_grad_coefficients(
    grad_out: cute.Pointer,
    x: cute.Pointer,
    y: cute.Pointer,
    grad_h_post: cute.Pointer,
    grad_h_res: cute.Pointer,
    sizes: cutlass.Constexpr,
):
    """Write grad_h_res[i, j] = sum of grad_out_i x_j and grad_h_post_i = sum of grad_out_i y over the columns."""
    n = cutlass.const_expr(sizes.streams)
    wide = cutlass.const_expr(n + 1)
    height = cutlass.const_expr(min(n, _SUMS // (n + 1)))
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    token = Int64(block)
    partial, sums = shared(height * wide * THREADS), shared(height * wide)
    source, streams = rows(grad_out, token * n, n, sizes), rows(x, token * n, n, sizes)
    layer = rows(y, token, 1, sizes)
    to_mapping, to_writing = vector_of(grad_h_res, token * (n * n), n * n), vector_of(grad_h_post, token * n, n)
    for first in cutlass.range_constexpr(0, sizes.streams, height):
        total = registers(height * wide)
        for pack in cutlass.range(thread, sizes.packs, THREADS):
            grad = [load(source[min(first + i, n - 1), pack, None]) for i in range(height)]
            for j in cutlass.range_constexpr(wide):
                v = load(streams[j, pack, None] if cutlass.const_expr(j < n) else layer[0, pack, None])
                for i in cutlass.range_constexpr(height):
                    for k in cutlass.range_constexpr(sizes.vector):
                        total[i * wide + j] = total[i * wide + j] + grad[i][k] * v[k]
        add_up(total, partial, sums)
        if thread < height * wide:
            i, j = first + thread // wide, thread % wide
            if i < n:
                if j < n:
                    to_mapping[i * n + j] = sums[thread]
                else:
                    to_writing[i] = sums[thread]
