"""The record of one instruction, as the interpreter reads it: ``native/state.h`` has the same fields."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

PROPAGATES, PRODUCTS, COPIES, ENDS = 1, 2, 4, 8  # flags
PARTS = 4  # from this bit on: how many bytes of a result are known for themselves
_PARAMETERS = 6
_LAYOUT = struct.Struct(f"<QIIIIiI{_PARAMETERS}qII")
SIZE = _LAYOUT.size


@dataclass
class Record:
    """One instruction: the name of its handler, and the numbers of the registers that it writes and reads."""

    handler: str
    to: Sequence[int] = ()
    sources: Sequence[int] = ()
    parameters: Sequence[int] = ()
    flags: int = 0
    guard: int = -1
    negated: bool = False
    half: str = ""  # of an instruction on pairs: the handler of each half, and the registers that it uses
    half_operands: Sequence[int] = ()
    turn: int = 0  # of its lanes among those that have parted
    behind: int = 0  # the turn behind it, where that is not the next one's

    def packed(self, handler: int, first: int, half: int) -> bytes:
        """Return the bytes of the record: its operands begin at ``first``; ``half`` is the handler of each half."""
        parameters = [(one & (1 << 64) - 1 ^ 1 << 63) - (1 << 63) for one in self.parameters]
        parameters += [0] * (_PARAMETERS - len(parameters))
        if self.half:  # its operands stand behind the operands of the whole
            parameters[3], parameters[5] = first + len(self.to) + len(self.sources), half
        sizes = len(self.to), len(self.sources)
        return _LAYOUT.pack(
            handler, first, *sizes, self.flags, self.guard, int(self.negated), *parameters, self.turn, self.behind
        )
