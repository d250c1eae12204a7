"""Operands by their numbers in the encoding: registers, constants and what stands for a scalar."""

from __future__ import annotations

import struct

from gpu_emulators.amd.decoding import Instruction
from gpu_emulators.amd.records import CONSTANT, SCALAR, SPECIAL, VECTOR, Operand
from gpu_emulators.common.errors import UnknownInstructionError

_VECTORS, _CONSTANTS, _POSITIVE, _NEGATIVE, _LITERAL = 256, 128, 192, 208, 255
_NULL, _M0 = 124, 125  # of RDNA; M0 is 124 on CDNA
_SPECIAL = (251, 252, 253)  # VCCZ, EXECZ, SCC
_FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0, 248: 0.15915494309189532}
_FORMATS = {"f16": "e", "f32": "f", "f64": "d"}


def operand(instruction: Instruction, number: int, *, is_cdna: bool, wide: bool, kind: str = "f32") -> Operand:
    """Return the operand of a number; ``kind`` is what a floating point constant is.

    Raises:
        UnknownInstructionError: the number is of no operand that the emulator knows.
    """
    if number >= _VECTORS:
        return Operand(VECTOR, number - _VECTORS)
    if number < _CONSTANTS:
        return Operand(CONSTANT) if not is_cdna and number == _NULL else Operand(SCALAR, number)
    if number <= _POSITIVE:
        return Operand(CONSTANT, 0, number - _CONSTANTS)
    if number <= _NEGATIVE:
        return Operand(CONSTANT, 0, (_POSITIVE - number) & (2**64 - 1 if wide else 2**32 - 1))
    if number in _FLOATS:
        return Operand(CONSTANT, 0, int.from_bytes(struct.pack(f"<{_FORMATS[kind]}", _FLOATS[number]), "little"))
    if number in _SPECIAL:
        return Operand(SPECIAL, number)
    if number == _LITERAL and instruction.literal is not None:
        return Operand(CONSTANT, 0, _literal(instruction.literal, wide=wide, kind=kind))
    raise UnknownInstructionError(f"{instruction.name} has an operand {number}")


def _literal(value: int, *, wide: bool, kind: str) -> int:
    """Return a constant of 32 bits as an operand: the high half of a double, else with its sign where it is wide."""
    if kind == "f64":
        return value << 32
    return value | 0xFFFFFFFF00000000 if wide and value >> 31 else value


def signed(value: int, width: int) -> int:
    """Return a field of ``width`` bits as a number with a sign."""
    return value - (1 << width) if value >> (width - 1) & 1 else value
