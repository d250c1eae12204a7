"""Operands by their numbers in the encoding: registers, constants and what stands for a scalar."""

from __future__ import annotations

import struct

from gpu_emulators.amd.gfx1250 import LONG_LITERAL
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.records import CONSTANT, SCALAR, SPECIAL, VECTOR, Operand
from gpu_emulators.common.errors import UnknownInstructionError

_VECTORS, _CONSTANTS, _POSITIVE, _NEGATIVE, _LITERAL = 256, 128, 192, 208, 255
_NULL, _M0 = 124, 125  # of RDNA; M0 is 124 on CDNA
_SPECIAL = (251, 252, 253)  # VCCZ, EXECZ, SCC
FLOATS = {240: 0.5, 241: -0.5, 242: 1.0, 243: -1.0, 244: 2.0, 245: -2.0, 246: 4.0, 247: -4.0, 248: 0.15915494309189532}
# Where flat accesses come to the LDS and to private memory; native/memory.h has the same. Hardware gives the addresses
# in 64 bits alone: a read of 32 is of nothing that a text says.
_APERTURES = {235: 0x10000 << 32, 237: 0x20000 << 32}  # src_shared_base, src_private_base
_PRIVATE_OF_GFX1250 = 1 << 58  # src_flat_scratch_base; the lane is in the bits from 52 on
_SCRATCH_LOW, _SCRATCH_HIGH = 230, 231
_PAIRS = ("pk2_f32", "pk2_b32")  # of registers: a constant stands for both


def operand(instruction: Instruction, number: int, place: int = 0, *, is_cdna: bool, kind: str = "") -> Operand:
    """Return the operand of a number, which is the source of a place; ``kind`` is another than the table's.

    Raises:
        UnknownInstructionError: the number is of no operand that the emulator knows.
    """
    if number >= _VECTORS:
        return Operand(VECTOR, number - _VECTORS)
    if number < _CONSTANTS:
        return Operand(CONSTANT) if not is_cdna and number == _NULL else Operand(SCALAR, number)
    if number in _SPECIAL:
        return Operand(SPECIAL, number)
    if (base := _base(number, is_wide=place in instruction.wide)) is not None:
        return Operand(CONSTANT, 0, base)
    value = _constant(instruction, number, kind or instruction.kinds[place], wide=place in instruction.wide)
    if value is None:
        raise UnknownInstructionError(f"{instruction.name} has an operand {number}")
    return Operand(CONSTANT, 0, value)


def _base(number: int, *, is_wide: bool) -> int | None:
    """Return where a space of memory begins for flat accesses; None where the number is of no such operand."""
    if number == _SCRATCH_LOW:
        return _PRIVATE_OF_GFX1250 if is_wide else _PRIVATE_OF_GFX1250 & 0xFFFFFFFF
    if number == _SCRATCH_HIGH and not is_wide:
        return _PRIVATE_OF_GFX1250 >> 32
    return _APERTURES.get(number) if is_wide else None


def _constant(instruction: Instruction, number: int, kind: str, *, wide: bool) -> int | None:
    """Return the bits of a constant as a source of a kind; None where the number is of no constant."""
    is_pair = kind in _PAIRS
    if number <= _NEGATIVE:
        value = number - _CONSTANTS if number <= _POSITIVE else _POSITIVE - number
        value &= 2**64 - 1 if wide and not is_pair else 2**32 - 1
    elif number in FLOATS:
        value = _float(FLOATS[number], kind, wide=wide and not is_pair)
    elif number == _LITERAL and instruction.literal is not None:
        value = _literal(instruction.literal, kind)
    elif number == LONG_LITERAL and instruction.literal is not None:
        return instruction.literal
    else:
        return None
    return value | value << 32 if is_pair else value


def _float(value: float, kind: str, *, wide: bool) -> int:
    """Return the bits of a number: a double in 64 bits, whatever the opcode makes of them, and fp16 for such operands.

    An integer of 16 bits is the low half of the number in fp32.
    """
    if kind.endswith("bf16"):
        return int.from_bytes(struct.pack("<f", value), "little") >> 16
    form = "d" if wide else "e" if kind.endswith("f16") else "f"
    return int.from_bytes(struct.pack(f"<{form}", value), "little")


def _literal(value: int, kind: str) -> int:
    """Return a constant of 32 bits as an operand: the high half of a double, with its sign if it is a long integer."""
    if kind == "f64":
        return value << 32
    return value | 0xFFFFFFFF00000000 if kind == "i64" and value >> 31 else value


def signed(value: int, width: int) -> int:
    """Return a field of ``width`` bits as a number with a sign."""
    return value - (1 << width) if value >> (width - 1) & 1 else value
