"""Operands: the registers of a kernel by number, with those for constants, special registers and addresses."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence

from gpu_emulators.common.errors import UnknownInstructionError
from gpu_emulators.nvidia.parse import Instruction, Kernel

_SPECIAL = (
    *("", "%tid.x", "%tid.y", "%tid.z", "%ntid.x", "%ntid.y", "%ntid.z", "%ctaid.x", "%ctaid.y", "%ctaid.z"),
    *("%nctaid.x", "%nctaid.y", "%nctaid.z", "%laneid", "%warpid", "%nwarpid"),
    *("%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"),
    *("%cluster_ctarank", "%clock", "%dynamic_smem_size"),
)
_SAME = {"%cluster_ctaid.x": "%cluster_ctarank", "%clock64": "%clock", "%globaltimer": "%clock", "%smid": "%clock"}
_FLOATS = {"f": ("<I", 8), "d": ("<Q", 16)}
_TYPED = {"f32": "<f", "f64": "<d", "f16": "<e"}
_ADDRESS = re.compile(r"\[\s*([\w$%.]+)\s*(?:\+\s*(-?\w+))?\s*\]")
SINK = 0  # the register that `_` stands for


class Registers:
    """The numbers of registers. ``addresses`` has the addresses of variables and parameters by name."""

    def __init__(self, kernel: Kernel, addresses: Mapping[str, int]) -> None:
        self._numbers = {name: number for number, name in enumerate(kernel.registers, 1)}
        self._names = {number: name for name, number in self._numbers.items()}
        self._types = kernel.registers
        self._addresses = addresses
        self._carry: int | None = None
        self.count = len(self._numbers) + 1
        self.given: dict[tuple[int, int], int] = {}  # of a constant or a special register: its number

    def is_predicate(self, one: str | int) -> bool:
        """Return whether this is the name or the number of a predicate."""
        name = self.name(one) if isinstance(one, int) else one.lstrip("!")
        return self._types.get(name) == "pred" or one == self._carry

    def bits(self, name: str) -> int:
        """Return how many bits a register has; 0 where it is no register."""
        return int(re.sub(r"\D", "", self._types.get(name, "")) or 0)

    def name(self, number: int) -> str:
        """Return the name of a register by its number."""
        return self._names.get(number, "a constant")

    def bytes_of(self, numbers: Sequence[int]) -> int:
        """Return how many bytes each of these registers has; 0 where they differ, or one is a predicate."""
        sizes = {self.bits(self.name(number)) // 8 for number in numbers}
        return sizes.pop() if len(sizes) == 1 else 0

    def scratch(self, count: int) -> int:
        """Return the first of so many registers that nothing else uses."""
        self.count += count
        return self.count - count

    def carry(self) -> int:
        """Return the predicate that carries go through."""
        if self._carry is None:
            self._carry = self.scratch(1)
        return self._carry

    def constant(self, value: int) -> int:
        """Return a register that has this value in every lane."""
        return self._given(0, value & (1 << 64) - 1)

    def number(self, word: str, kind: str = "") -> int:
        """Return the register of an operand. ``kind`` is the type that a number with a point has.

        Raises:
            UnknownInstructionError: the operand is not known.
        """
        if word in self._numbers:
            return self._numbers[word]
        if word == "_":
            return SINK
        word = _SAME.get(word, word)
        if word in _SPECIAL[1:]:
            return self._given(_SPECIAL.index(word), 0)
        if word.startswith(("%cluster_nctaid", "%cluster_nctarank")):
            return self.constant(1)
        return self.constant(self._value(word, kind))

    def predicate(self, word: str) -> int:
        """Return the register of a predicate, which may be a constant."""
        return self.constant(0xFFFFFFFF if int(word) else 0) if word.isdecimal() else self.number(word)

    def address(self, word: str) -> tuple[int, int]:
        """Return the register of ``[register+offset]``, and the offset."""
        found = _ADDRESS.fullmatch(word.strip())
        if found is None:
            raise UnknownInstructionError(f"the address {word}")
        return self.number(found[1]), int(found[2] or "0", 0)

    def _given(self, special: int, value: int) -> int:
        key = special, value
        if key not in self.given:
            self.given[key] = self.scratch(1)
        return self.given[key]

    def _value(self, word: str, kind: str) -> int:
        if found := re.fullmatch(r"(-?)0([fFdD])([0-9a-fA-F]{8}|[0-9a-fA-F]{16})", word):
            sign = 1 << 4 * len(found[3]) - 1 if found[1] else 0
            return int(found[3], 16) ^ sign
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?", word):
            text = word.rstrip("U")
            octal = re.fullmatch(r"-?0[0-7]+", text)
            return int(text, 8 if octal else 0)
        if kind in _TYPED and re.fullmatch(r"-?\d*\.?\d+([eE][+-]?\d+)?", word):
            return int.from_bytes(struct.pack(_TYPED[kind], float(word)), "little")
        name, _, offset = word.partition("+")
        if name.strip() in self._addresses:
            return self._addresses[name.strip()] + int(offset or "0", 0)
        raise UnknownInstructionError(f"the operand {word}")


def vector(word: str) -> list[str]:
    """Return the parts of ``{a, b}``, or the operand alone."""
    return [part.strip() for part in word.strip("{} \t\n").split(",")] if word.startswith("{") else [word]


def pair(word: str) -> list[str]:
    """Return the parts of ``a|b``, or the operand alone."""
    return [part.strip() for part in word.split("|")]


def unknown(instruction: Instruction) -> UnknownInstructionError:
    """Return the error that names an instruction."""
    where = f" ({instruction.line})" if instruction.line else ""
    return UnknownInstructionError(f"{instruction.opcode} {', '.join(instruction.operands)}{where}")
