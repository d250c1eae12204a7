"""Read MessagePack, as far as AMD's metadata of kernels uses it."""

from __future__ import annotations

import struct
from typing import Any

from gpu_emulators.common.errors import EmulatorError

_NUMBERS = {0xCC: "B", 0xCD: "H", 0xCE: "I", 0xCF: "Q", 0xD0: "b", 0xD1: "h", 0xD2: "i", 0xD3: "q", 0xCB: "d"}
_LENGTHS = {0xD9: "B", 0xDA: "H", 0xDB: "I", 0xDC: "H", 0xDD: "I", 0xDE: "H", 0xDF: "I"}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}


def unpacked(data: bytes) -> Any:
    """Return the value that the bytes are.

    Raises:
        EmulatorError: a byte is none that begins a value.
    """
    return _value(data, 0)[0]


def _value(data: bytes, at: int) -> tuple[Any, int]:
    """Return a value, and the place behind it."""
    code, at = data[at], at + 1
    if code < 0x80:
        return code, at
    if code >= 0xE0:
        return code - 256, at
    if code in _CONSTANTS:
        return _CONSTANTS[code], at
    if code in _NUMBERS:
        (number,) = struct.unpack_from(f">{_NUMBERS[code]}", data, at)
        return number, at + struct.calcsize(_NUMBERS[code])
    if code < 0xC0:
        length = code & (0x1F if code >= 0xA0 else 0x0F)
    elif code in _LENGTHS:
        (length,) = struct.unpack_from(f">{_LENGTHS[code]}", data, at)
        at += struct.calcsize(_LENGTHS[code])
    else:
        raise EmulatorError(f"the metadata of a code object has the byte {code:#x}, which is not known")
    return _container(data, at, code, length)


def _container(data: bytes, at: int, code: int, length: int) -> tuple[Any, int]:
    if 0xA0 <= code < 0xC0 or 0xD9 <= code <= 0xDB:
        return data[at : at + length].decode(), at + length
    is_map = code < 0x90 or code >= 0xDE
    values = []
    for _ in range(2 * length if is_map else length):
        value, at = _value(data, at)
        values.append(value)
    return (dict(zip(values[::2], values[1::2], strict=True)) if is_map else values), at
