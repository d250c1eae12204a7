"""Code that the kernels share: dtypes, threads and the blocks of columns that a core holds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

FP32 = "float32"
DTYPES = {torch.bfloat16: "bfloat16", torch.float16: "float16", torch.float32: FP32}
THREADS = 128  # of a vector function
PARTS = 4  # of a sum over columns: a thread has one of them
SEGMENT = 32  # tokens of one part of a sum over all of them
_MOST_COLUMNS = 256
_MOST_ENTRIES = 1 << 14  # of the largest tile, in fp32 a quarter of what a core has


def columns_of(hidden: int, rows: int = 1) -> int:
    """Return the columns of one block: as many as divide a stream, so that no block is smaller than the others.

    ``rows`` is the number of rows of the largest tile.
    """
    most = min(hidden, _MOST_COLUMNS, _MOST_ENTRIES // rows)
    return next(size for size in range(most, 0, -1) if hidden % size == 0)


def matrices_of(streams: int) -> int:
    """Return of how many tokens a core holds the matrices at once: a thread has one."""
    return THREADS if streams <= 8 else THREADS // 4


def added(term: Callable[[int], Any], count: int) -> Any:
    """Return the sum of so many terms as one expression, from the first to the last.

    A sum that stands in the core's memory would have barriers between its steps, and TileLang refuses them where not
    all threads of a warp have a column.
    """
    total = term(0)
    for place in range(1, count):
        total = total + term(place)
    return total
