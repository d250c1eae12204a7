"""The record of one instruction, as the interpreter reads it: ``native/state.h`` has the same fields."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import NamedTuple

VECTOR, SCALAR, CONSTANT, SPECIAL = range(4)  # kinds of operands
_OPERANDS, _PARAMETERS, _SELECTIONS = 4, 6, 3
_LAYOUT = struct.Struct("<Q" + "IIQ" * _OPERANDS + "9Ii" + f"{_PARAMETERS}I" + "7I" + "I" + f"{_SELECTIONS}III4x")
SIZE = _LAYOUT.size
EXACT, SINGLE, DOUBLE = range(3)  # which bits of MODE an instruction obeys; DOUBLE: for fp16 too
WHOLE = 6  # a selection of SDWA: all of the register
SIGNED = 8  # added to a selection of SDWA: the part is a number with a sign
_MASK = 0xFFFFFFFF


class Operand(NamedTuple):
    """An operand: a register by its number, or a constant."""

    kind: int = CONSTANT
    number: int = 0
    value: int = 0


@dataclass
class Record:
    """One instruction with its operands and modifiers; the handler is an opcode's name."""

    handler: str = ""
    sources: list[Operand] = field(default_factory=lambda: [Operand()] * _OPERANDS)
    destination: int = 0
    scalar_destination: int = 0
    negate: int = 0
    absolute: int = 0
    half: int = 0
    half_high: int = 0
    negate_high: int = 0
    scale: int = 0
    clamp: int = 0
    immediate: int = 0
    parameters: list[int] = field(default_factory=lambda: [0] * _PARAMETERS)
    target: int = 0
    dpp: tuple[int, int, int, int, int] | None = None  # control, bound_ctrl, row_mask, bank_mask, fetch inactive
    selections: tuple[int, int, int] | None = None  # of SDWA: the two sources and the destination
    unused: int = 0
    precision: int = EXACT

    def packed(self, handler: int) -> bytes:
        """Return the bytes of the record, with the address of its handler."""
        operands = [part for operand in self.sources for part in operand]
        immediate = (self.immediate & _MASK ^ 0x80000000) - 0x80000000
        return _LAYOUT.pack(
            handler,
            *operands,
            self.destination,
            self.scalar_destination,
            *(self.negate, self.absolute, self.half, self.half_high, self.negate_high),
            *(self.scale, self.clamp),
            immediate,
            *self.parameters,
            self.target,
            *(int(self.dpp is not None), *(self.dpp or (0, 0, 0, 0, 0))),
            int(self.selections is not None),
            *(self.selections or (WHOLE,) * _SELECTIONS),
            self.unused,
            self.precision,
        )
