"""Messages between the two processes of a job: a JSON header and the raw bytes of arrays.

The process that compares does not trust the kernel's: nothing here is unpickled or run. A message is the length of its
header (8 bytes, little endian), the header (JSON, with the dtype and the shape of each array), and the arrays' bytes.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO, Protocol

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kernel_matrix.job.arrays import NARROW
from kernel_matrix.job.inputs import Array

_DTYPES: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(kind)
    for name, kind in {
        **{
            name: name for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")
        },
        **{name: getattr(ml_dtypes, name) for name in NARROW},
    }.items()
}
_NAMES = {kind: name for name, kind in _DTYPES.items()}  # a dtype makes its name anew whenever it is asked
_HEADER_BYTES = 64 << 20  # an artifact is an array; the texts of a message are far smaller
_ARRAY_BYTES = 16 << 30  # all arrays of a message
_DIMENSIONS = 32  # NumPy 1 has no more


class Readable(Protocol):
    """A source of messages: an unbuffered file, for example."""

    def readinto(self, buffer: memoryview, /) -> int | None:
        """Fill a part of the buffer and return how much; 0 at the end."""


class BrokenMessageError(Exception):
    """The other process ended, or what it sent is no message."""


def send(stream: BinaryIO, header: Mapping[str, Any], arrays: Mapping[str, Array] | None = None) -> None:
    """Write one message.

    Raises:
        TypeError: the header is nothing that JSON can hold. Nothing has been written then.
        ValueError: the same, or no message has the dtype of an array.
    """
    arrays = arrays or {}
    for name, array in arrays.items():
        if array.dtype not in _NAMES:
            raise ValueError(f"the array {name} has the dtype {array.dtype}, which no message has")
    described = [[name, _NAMES[array.dtype], list(array.shape)] for name, array in arrays.items()]
    parts = [np.ascontiguousarray(array) for array in arrays.values()]
    text = json.dumps({**header, "arrays": described}).encode()
    stream.write(struct.pack("<Q", len(text)) + text)
    for part in parts:
        stream.write(part.reshape(-1).view(np.uint8).data)
    stream.flush()


def receive(stream: Readable) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read one message: its header and its arrays.

    Raises:
        BrokenMessageError: the stream ended, or holds something else.
    """
    (length,) = struct.unpack("<Q", _exactly(stream, 8).tobytes())
    if length > _HEADER_BYTES:
        raise BrokenMessageError(f"a header of {length} bytes is no header")
    try:
        header = json.loads(_exactly(stream, length).tobytes())
        described = [(str(name), _DTYPES[dtype], tuple(map(int, shape))) for name, dtype, shape in header.pop("arrays")]
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise BrokenMessageError(f"the header cannot be read: {error!r}") from None
    _check_sizes([(dtype, shape) for _, dtype, shape in described])
    return header, {name: _array(stream, dtype, shape) for name, dtype, shape in described}


def _check_sizes(described: Sequence[tuple[np.dtype[np.generic], tuple[int, ...]]]) -> None:
    """Check what the header says of the arrays, before memory is taken for them.

    Raises:
        BrokenMessageError: a shape is none, or the arrays are larger than any case needs.
    """
    total = 0
    for dtype, shape in described:
        if len(shape) > _DIMENSIONS or min(shape, default=0) < 0:
            raise BrokenMessageError(f"an array of shape {_shortened(shape)} is no array")
        total += math.prod(shape) * dtype.itemsize
        if total > _ARRAY_BYTES:
            raise BrokenMessageError(f"an array of shape {_shortened(shape)} is no array: it is too large")


def _shortened(shape: tuple[int, ...]) -> str:
    text = str(shape)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _array(stream: Readable, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> Array:
    return _exactly(stream, math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def _exactly(stream: Readable, size: int) -> npt.NDArray[np.uint8]:
    """Read so many bytes.

    Raises:
        BrokenMessageError: the stream ended before, or this process has no memory for so many.
    """
    try:
        data = np.empty(size, np.uint8)
    except MemoryError:
        raise BrokenMessageError(f"there is no memory for the {size} bytes of an array") from None
    view, filled = data.data, 0
    while filled < size:
        count = stream.readinto(view[filled:])
        if not count:
            raise BrokenMessageError("the other process has ended")
        filled += count
    return data
