"""The kernels' common parts on the device: rows in vectors, arrays in shared memory, and sums over a block."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int64

from mhc.backends.cute.sizes import THREADS

_WARP = 32


def shared(count: int) -> Any:
    """Return an array of fp32 in the block's shared memory."""
    return cute.make_tensor(cute.arch.alloc_smem(Float32, count), cute.make_layout(count))


def registers(count: int) -> Any:
    """Return an array of fp32 of the thread, all zero."""
    array = cute.make_rmem_tensor((count,), Float32)
    array.fill(0.0)
    return array


@cute.jit
def rows(pointer: cute.Pointer, first: Int64, count: cutlass.Constexpr, sizes: cutlass.Constexpr):
    """Return ``count`` rows of ``hidden`` elements from the row ``first`` on, as [row, pack, vector]."""
    begin = cute.assume(first * sizes.hidden, divby=sizes.vector)
    layout = cute.make_layout((count, sizes.packs, sizes.vector), stride=(sizes.hidden, sizes.vector, 1))
    return cute.make_tensor(pointer + begin, layout)


@cute.jit
def wide_row(pointer: cute.Pointer, index: Int64, sizes: cutlass.Constexpr):
    """Return the row ``index`` of a matrix with a token's width, as [pack, vector]."""
    begin = cute.assume(index * sizes.width, divby=sizes.vector)
    layout = cute.make_layout((sizes.streams * sizes.packs, sizes.vector), stride=(sizes.vector, 1))
    return cute.make_tensor(pointer + begin, layout)


@cute.jit
def vector_of(pointer: cute.Pointer, begin: Int64, count: cutlass.Constexpr):
    """Return ``count`` elements from ``begin`` on."""
    return cute.make_tensor(pointer + begin, cute.make_layout(count))


@cute.jit
def load(source: cute.Tensor):
    """Return the elements of a vector in fp32."""
    stored = cute.make_rmem_tensor(source.shape, source.element_type)
    cute.autovec_copy(source, stored)
    values = cute.make_rmem_tensor(source.shape, Float32)
    for k in cutlass.range_constexpr(cute.size(source)):
        values[k] = stored[k].to(Float32)
    return values


@cute.jit
def store(values: cute.Tensor, target: cute.Tensor):
    """Write the fp32 elements of a vector in the dtype of ``target``, rounded."""
    stored = cute.make_rmem_tensor(target.shape, target.element_type)
    for k in cutlass.range_constexpr(cute.size(target)):
        stored[k] = values[k].to(target.element_type)
    cute.autovec_copy(stored, target)


@cute.jit
def sigmoid(z: Float32):
    """Return the logistic function of ``z``."""
    return 1.0 / (1.0 + cute.math.exp(-z))


@cute.jit
def add_up(values: cute.Tensor, partial: cute.Tensor, sums: cute.Tensor):
    """Add each of the values up over the threads of the block, in a fixed order; all threads then see ``sums``.

    ``partial`` is shared memory for all values of all threads.
    """
    thread, _, _ = cute.arch.thread_idx()
    lane, warp = thread % _WARP, thread // _WARP
    count = cutlass.const_expr(cute.size(values))
    for i in cutlass.range_constexpr(count):
        partial[i * THREADS + thread] = values[i]
    cute.arch.sync_threads()
    for i in cutlass.range(warp, count, THREADS // _WARP):
        at = i * THREADS + lane
        total = (partial[at] + partial[at + _WARP]) + (partial[at + 2 * _WARP] + partial[at + 3 * _WARP])
        for step in cutlass.range_constexpr(5):
            total = total + cute.arch.shuffle_sync_bfly(total, offset=_WARP // 2 >> step)
        if lane == 0:
            sums[i] = total
    cute.arch.sync_threads()
