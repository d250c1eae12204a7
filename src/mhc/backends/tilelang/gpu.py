"""Code that the GPU kernels share: dtypes, vectors and sums over a block."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.language as T
import torch

FP32 = "float32"
SEGMENT = 32  # partial sums that one thread adds up in the reduction

DTYPES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: "float32"}


def vector_of(hidden: int) -> int:
    """Return the elements of one access: a vector crosses no stream's end, and starts at a multiple of its size."""
    return next(size for size in (4, 2, 1) if hidden % size == 0)


def add_segments(sums: int, segments: int, threads: int) -> Any:
    """Return a macro that adds up what ``threads`` threads left in shared memory, for ``sums`` sums, in a fixed order.

    ``partial`` has the segments of a sum as consecutive rows; the sums go to row ``m`` of ``total``.
    """

    @T.macro
    def add_up(partial, segment_sum, total, m, scalar, thread):
        T.sync_threads()
        for part in T.serial(T.ceildiv(sums * segments, threads)):
            if part * threads + thread < sums * segments:
                scalar[0] = T.float32(0)
                for j in T.unroll(SEGMENT):
                    scalar[0] = scalar[0] + partial[part * threads + thread, j]
                segment_sum[part * threads + thread] = scalar[0]
        T.sync_threads()
        for part in T.serial(T.ceildiv(sums, threads)):
            if part * threads + thread < sums:
                scalar[0] = T.float32(0)
                for j in T.unroll(segments):
                    scalar[0] = scalar[0] + segment_sum[(part * threads + thread) * segments + j]
                total[m, part * threads + thread] = scalar[0]

    return add_up
