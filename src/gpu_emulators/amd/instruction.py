"""An instruction of AMD's GPUs, as the decoder reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Instruction:
    """One instruction: its place in the kernel, its encoding and opcode, and its fields as they are encoded.

    ``wide`` are the numbers of the sources that have 64 bits, and ``kinds`` are the kinds of number that AMD's tables
    say of the sources, such as ``f64`` or ``pk2_f16``. ``literal`` is the constant behind the instruction, ``result``
    the number of registers of its result, and ``sources`` how many sources it has.
    """

    address: int
    size: int
    encoding: str
    name: str
    raw: int
    fields: Mapping[str, int]
    wide: frozenset[int]
    literal: int | None
    result: int = 1
    sources: int = 0
    kinds: tuple[str, ...] = ("", "", "")

    @property
    def base(self) -> str:
        """Return the encoding without the name of its variant."""
        return self.encoding.split("_")[0]

    def get(self, field: str) -> int:
        """Return a field, and 0 where the encoding has none of this name."""
        return self.fields.get(field, 0)
