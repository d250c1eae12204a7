"""The table of opcodes: what each form of an instruction becomes in records."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpu_emulators.nvidia.operands import Registers, unknown
from gpu_emulators.nvidia.parse import Instruction
from gpu_emulators.nvidia.records import PARTS, PROPAGATES, Record

Translation = Callable[[Instruction, "re.Match[str]", Registers], Record]
_FORMS: dict[str, list[tuple[re.Pattern[str], Translation]]] = {}


def form(*patterns: str) -> Callable[[Translation], Translation]:
    """Add the function to the table for opcodes of these patterns; a pattern begins with the opcode's first word."""

    def added(function: Translation) -> Translation:
        for pattern in patterns:
            words = re.match(r"(?:\((?:\?:)?)?([\w|]+)", pattern)
            assert words is not None
            for word in words[1].split("|"):
                _FORMS.setdefault(word, []).append((re.compile(pattern), function))
        return function

    return added


def record_of(instruction: Instruction, registers: Registers, labels: Mapping[str, int]) -> Record:
    """Return the record of an instruction.

    Raises:
        UnknownInstructionError: it is not known; the text names it.
    """
    if instruction.parts[0] == "bra" and instruction.operands[0] in labels:
        record = Record("bra", parameters=(labels[instruction.operands[0]],))
    else:
        record = _translated(instruction, registers)
    if record.flags & PROPAGATES and not any(map(registers.is_predicate, record.sources)):
        record.flags |= registers.bytes_of(record.to) << PARTS
    if instruction.guard:
        record.guard, record.negated = registers.number(instruction.guard), instruction.negated
    return record


def _translated(instruction: Instruction, registers: Registers) -> Record:
    for pattern, function in _FORMS.get(instruction.parts[0], ()):
        if found := pattern.fullmatch(instruction.opcode):
            try:
                return function(instruction, found, registers)
            except (ValueError, IndexError):
                raise unknown(instruction) from None
    raise unknown(instruction)
