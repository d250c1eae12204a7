"""``expand`` and its gradient on the device: a block has one token, and its threads share out the vectors of a row."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Int64

from mhc.backends.cute.device import load, registers, rows, store
from mhc.backends.cute.sizes import THREADS


@cute.kernel
def expand_forward(x: cute.Pointer, out: cute.Pointer, sizes: cutlass.Constexpr):
    """Write each row of ``x`` as many times as there are streams."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    source = rows(x, Int64(block), 1, sizes)
    target = rows(out, Int64(block) * sizes.streams, sizes.streams, sizes)
    for pack in cutlass.range(thread, sizes.packs, THREADS):
        values = load(source[0, pack, None])
        for i in cutlass.range_constexpr(sizes.streams):
            store(values, target[i, pack, None])


@cute.kernel
def expand_backward(grad_out: cute.Pointer, grad_x: cute.Pointer, sizes: cutlass.Constexpr):
    """Add the streams up."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    source = rows(grad_out, Int64(block) * sizes.streams, sizes.streams, sizes)
    target = rows(grad_x, Int64(block), 1, sizes)
    for pack in cutlass.range(thread, sizes.packs, THREADS):
        total = registers(sizes.vector)
        for i in cutlass.range_constexpr(sizes.streams):
            values = load(source[i, pack, None])
            for k in cutlass.range_constexpr(sizes.vector):
                total[k] = total[k] + values[k]
        store(total, target[0, pack, None])
