"""The registers that an instruction of CDNA reads and writes, for the search for hazards."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gfx_emulator.decoding import Instruction
from gfx_emulator.records import SCALAR, VECTOR, WHOLE, Operand, Record

VALU, MFMA, VMEM, LDS, SALU, OTHER = "valu", "mfma", "vmem", "lds", "salu", "other"
SCALARS = 1000  # the numbers of scalar registers begin here, the numbers of vector registers at 0
VCC, EXEC = SCALARS + 106, SCALARS + 126
_SELECTED = ("v_readlane_b32", "v_writelane_b32")  # whose lane a scalar register may name
_TO_SCALAR = ("v_readlane_b32", "v_readfirstlane_b32")
_VECTOR_ENCODINGS = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P")
_SCALAR_ENCODINGS = ("SOP1", "SOP2", "SOPK", "SOPC", "SMEM")
_TAKES_VCC = re.compile(r"v_(cndmask|addc|subb|subbrev|div_fmas)_")
_HIGH_HALF = 8  # of the bits for halves: the result is in the high half
_FP16, _BF16, _BYTES = 1, 2, 4  # types of factors; those from the last one on have 8 bits


@dataclass(frozen=True)
class Access:
    """The registers that one instruction reads and writes, and the wait states that it takes.

    ``crossed`` are the registers that are read from other lanes: by DPP, or by an instruction whose result is a scalar.
    ``summand`` are the registers of the summand of a product of matrices. ``is_partial`` says that a part of a register
    is written.
    """

    name: str
    kind: str
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    states: int = 1
    crossed: frozenset[int] = frozenset()
    selector: frozenset[int] = frozenset()
    summand: frozenset[int] = frozenset()
    is_dpp: bool = False
    is_partial: bool = False
    flows: tuple[int, ...] = field(default=())  # by how many places the next instruction is away


def access(one: Instruction, record: Record, place: int) -> Access:
    """Return the access of the instruction at a place among the instructions of its kernel."""
    if record.handler == "s_nop":
        return Access(one.name, OTHER, states=1 + record.immediate, flows=(1,))
    if record.handler == "mfma":
        return _product(one, record)
    if record.handler.startswith("memory_"):
        return _memory(one, record)
    if one.base == "DS":
        return _lds(one, record)
    if one.base in _VECTOR_ENCODINGS:
        return _vector(one, record)
    if one.base in _SCALAR_ENCODINGS:
        first, count = record.scalar_destination, record.parameters[1] or one.result
        writes = {*range(first, first + count), *(range(126, 128) if "saveexec" in one.name else ())}
        return Access(one.name, SALU, writes=frozenset(SCALARS + n for n in writes), flows=(1,))
    away = record.target - place
    ends = {"s_endpgm": (), "s_branch": (away,)}
    flows = ends.get(record.handler, (1, away) if record.handler.startswith("s_cbranch") else (1,))
    return Access(one.name, OTHER, flows=flows)


def _registers(operand: Operand, count: int) -> Iterator[int]:
    if operand.kind in (VECTOR, SCALAR):
        first = operand.number + (SCALARS if operand.kind == SCALAR else 0)
        yield from range(first, first + count)


def _vector(one: Instruction, record: Record) -> Access:
    sources = [
        frozenset(_registers(source, 2 if place in one.wide else 1) if place < one.sources else ())
        for place, source in enumerate(record.sources[:3])
    ]
    reads = frozenset().union(*sources)
    if (one.base in ("VOP1", "VOP2") and _TAKES_VCC.match(one.name)) or one.name.startswith("v_div_fmas"):
        reads |= {VCC, VCC + 1}
    return Access(
        one.name,
        VALU,
        reads,
        frozenset(_written(one, record)),
        crossed=sources[0] if record.dpp is not None or one.name in _TO_SCALAR else frozenset(),
        selector=sources[1] if one.name in _SELECTED else frozenset(),
        is_dpp=record.dpp is not None,
        is_partial=bool(record.selections and record.selections[2] != WHOLE) or bool(record.half & _HIGH_HALF),
        flows=(1,),
    )


def _written(one: Instruction, record: Record) -> Iterator[int]:
    """Yield the registers that a vector instruction writes."""
    scalar = SCALARS + record.scalar_destination
    is_compare = one.name.startswith("v_cmp")
    if one.name in _TO_SCALAR:
        yield scalar
        return
    if is_compare or one.base == "VOP3SD" or ("_co_" in one.name and one.base == "VOP2"):
        yield from (scalar, scalar + 1)
    if one.name.startswith("v_cmpx"):
        yield from (EXEC, EXEC + 1)
    if not is_compare:
        yield from range(record.destination, record.destination + one.result)
    if one.name == "v_swap_b32":
        yield record.sources[0].number


def _product(one: Instruction, record: Record) -> Access:
    rows, depth, *kinds = record.parameters[:4]
    count = rows * rows // 64
    factors: set[int] = set()
    for source, kind in zip(record.sources[:2], kinds, strict=True):
        packed = 4 if kind >= _BYTES else 2 if kind in (_FP16, _BF16) else 1
        factors.update(_registers(source, -(-depth * rows // 64 // packed)))
    summand = frozenset(_registers(record.sources[2], count))
    return Access(
        one.name, MFMA, frozenset(factors), frozenset(_range(record.destination, count)), summand=summand, flows=(1,)
    )


def _memory(one: Instruction, record: Record) -> Access:
    count = record.parameters[1] * (2 if record.handler == "memory_atomic" else 1)
    reads = {
        *_registers(record.sources[0], 1 + record.half),
        *_registers(record.sources[1], 4 if one.base == "MUBUF" else 2),
        *_registers(record.sources[2], 1),
    }
    if record.handler == "memory_load":
        return Access(one.name, VMEM, frozenset(reads), frozenset(_range(record.destination, count)), flows=(1,))
    return Access(one.name, VMEM, frozenset((*reads, *_registers(record.sources[3], count))), flows=(1,))


def _lds(one: Instruction, record: Record) -> Access:
    address, count = _registers(record.sources[0], 1), record.parameters[1] or 1
    if record.handler.startswith("lds_write"):
        pairs = 2 if record.parameters[4] == 2 else 1
        data = [*_registers(record.sources[2], count), *(_registers(record.sources[3], count) if pairs == 2 else ())]
        return Access(one.name, LDS, frozenset((*address, *data)), flows=(1,))
    several = record.parameters[4] if record.handler == "lds_read" else 1
    written = frozenset(_range(record.destination, count * max(1, several)))
    return Access(one.name, LDS, frozenset(address), written, flows=(1,))


def _range(first: int, count: int) -> range:
    return range(first, first + count)
