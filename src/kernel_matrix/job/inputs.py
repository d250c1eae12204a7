"""Make the same inputs, bit for bit, on every machine: a counter-based generator, and sums of integers.

NumPy promises the raw stream of a bit generator, but not the numbers of its distributions, and libm's logarithm differs
from machine to machine. So a value here is a sum of four 16-bit integers of Philox's stream (Irwin-Hall, near a normal
distribution, never beyond 3.47 standard deviations), shifted and divided once in float64.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

DTYPES: dict[str, np.dtype[np.generic]] = {
    "fp64": np.dtype(np.float64),
    "fp32": np.dtype(np.float32),
    "fp16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
}

_STANDARD_DEVIATION = 2.0 * math.sqrt((2.0**32 - 1.0) / 12.0)
_MEAN = 4.0 * 65535.0 / 2.0
_QUARTER, _HALF = np.uint64(16), np.uint64(32)  # bits
_EVEN_QUARTERS, _LOWER_HALF = np.uint64(0x0000FFFF0000FFFF), np.uint64(0xFFFFFFFF)


def normal(key: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return values of mean 0 and variance 1, float64; ``key`` and ``shape`` alone determine them."""
    values: npt.NDArray[np.float64] = _totals(key, shape).astype(np.float64)
    values -= _MEAN
    values /= _STANDARD_DEVIATION
    return values


def nudge(key: str, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return ``values``, each off by one rounding error of fp32 (a relative 2**-24); ``key`` determines up or down."""
    words = _generator(f"{key}/nudge").random_raw(-(-values.size // 64)).astype("<u8")
    ups = np.unpackbits(words.view(np.uint8), count=values.size).reshape(values.shape)
    nudged = np.multiply(2.0**-23, ups, dtype=np.float64)
    nudged += 1.0 - 2.0**-24
    nudged *= values
    return nudged


def _generator(key: str) -> np.random.Philox:
    return np.random.Philox(key=int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little"))


def _totals(key: str, shape: tuple[int, ...]) -> npt.NDArray[np.uint64]:
    """Return sums of four 16-bit integers, which ``key`` and ``shape`` alone determine.

    The four quarters of a 64-bit word are added as two pairs at once: a word holds two sums of 17 bits side by side.
    """
    words = _generator(key).random_raw(math.prod(shape))
    totals = words & _EVEN_QUARTERS
    words >>= _QUARTER
    words &= _EVEN_QUARTERS
    totals += words
    np.right_shift(totals, _HALF, out=words)
    totals &= _LOWER_HALF
    totals += words
    return totals.reshape(shape)


def digest(arrays: Iterable[Array]) -> str:
    """Return the first 16 hexadecimal digits of SHA-256 over the arrays' bytes: equal digests, equal inputs."""
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()[:16]
