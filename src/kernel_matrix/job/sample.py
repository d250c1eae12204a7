"""Take a small sample of an output: bits at positions that follow from the case's name, the same on every machine.

Two machines that ran the same case can then be compared, although neither has the other's output. An output leaves at
most ``MOST`` elements. A case of this repository's quick tier leaves 2 kB on average at the most.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernel_matrix.job.inputs import DTYPES, Array, digest

MOST = 128  # positions of one output
_BLOCKS = tuple(2**power for power in range(4, 11))  # 16..1024: the sizes that kernels cut their work into
_NAMES = {dtype: name for name, dtype in DTYPES.items()}

Positions = npt.NDArray[np.int64]


def positions(key: str, output: str, shape: Sequence[int]) -> Positions:
    """Return the sampled positions in the flat output, ascending and distinct; at most ``MOST``.

    They are the first and the last position, both sides of the edges of blocks (in the flat output, in the columns and
    in the rows), and drawn ones. An output with no more than ``MOST`` elements is taken whole. ``key`` is
    ``op.direction/name`` of the case. All variants of an output (``h_in@tensor_cores``) have the same positions.
    """
    size = math.prod(shape)
    if size <= MOST:
        return np.arange(size, dtype=np.int64)
    words = _words(f"{key}/{output.partition('@')[0]}/positions")
    chosen = {0, size - 1, *_edges(size)}
    width = shape[-1]
    rows = size // width
    chosen |= {next(words) % rows * width + column for column in _edges(width)}
    chosen |= {row * width + next(words) % width for row in _edges(rows)}
    while len(chosen) < MOST:
        chosen.add(next(words) % size)
    return np.array(sorted(chosen), dtype=np.int64)


def count_of(shape: Sequence[int]) -> int:
    """Return the number of positions in an output of this shape."""
    return min(MOST, math.prod(shape))


def take(key: str, output: str, array: Array) -> dict[str, Any]:
    """Return the sample of one output, as JSON can hold it.

    ``sha256`` is of all bytes of the output, and ``bits`` are the little-endian bytes at :func:`positions`, as base64.

    Raises:
        ValueError: the dtype is none of :data:`kernel_matrix.job.inputs.DTYPES`.
    """
    if array.dtype not in _NAMES:
        raise ValueError(f"{output}: the dtype {array.dtype} is not known; known are {', '.join(DTYPES)}")
    chosen = np.ascontiguousarray(array).reshape(-1)[positions(key, output, array.shape)]
    size = array.dtype.itemsize
    bits = chosen.view(f"i{size}").astype(f"<i{size}")
    return {
        "dtype": _NAMES[array.dtype],
        "shape": list(array.shape),
        "sha256": digest([array]),
        "bits": base64.b64encode(bits.tobytes()).decode("ascii"),
    }


def _edges(length: int) -> list[int]:
    """Return the last place of a block of each size, and the first two of the next block, where they are inside."""
    return [place for block in _BLOCKS for place in (block - 1, block, block + 1) if place < length]


def _words(key: str) -> Iterator[int]:
    """Yield numbers below 2**64 that ``key`` alone determines, from the raw stream that NumPy promises."""
    generator = np.random.Philox(key=int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little"))
    while True:
        yield from generator.random_raw(MOST).tolist()
