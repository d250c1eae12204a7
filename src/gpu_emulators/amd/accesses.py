"""The registers that each instruction of a kernel reads and writes, for the search for hazards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.names import CALLS
from gpu_emulators.amd.records import SCALAR, VECTOR, WHOLE, Operand, Record

VALU, MFMA, VMEM, LDS, SALU, WAIT, OTHER = "valu", "mfma", "vmem", "lds", "salu", "wait", "other"
SCALARS = 2000  # the numbers of scalar registers begin here, the numbers of vector registers at 0
VCC, EXEC, MODE = SCALARS + 106, SCALARS + 126, SCALARS + 128
_SELECTED = ("v_readlane_b32", "v_writelane_b32")  # whose lane a scalar register may name
_TO_SCALAR = ("v_readlane_b32", "v_readfirstlane_b32")
_VECTOR_ENCODINGS = ("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P")
_SCALAR_ENCODINGS = ("SOP1", "SOP2", "SOPK", "SOPC", "SMEM")
_TAKES_VCC = re.compile(r"v_(cndmask|addc|subb|subbrev|div_fmas)_")
_PRIVATE = ("SCRATCH", "VSCRATCH")
_BUFFERS = ("MUBUF", "VBUFFER")  # RDNA 4 has another name for it
_ADDS_TO_RESULT = re.compile(r"v_(dual_)?(fmac|mac|dot\d(acc|c))_")
_HALVES = 2  # of a pair of instructions, each with a record behind the pair's
_RESULTS = 12  # the first bit of s_waitcnt_depctr's count of vector results, which has four bits
_HIGH_HALF = 8  # of the bits for halves: the result is in the high half
_BLOCKS = 5  # the parameter of how many products are made at once
_SHORT, _BYTES = (1, 2), 4  # types of factors: of 16 bits; those from the last one on have 8 bits
_SUMS_OF_WMMA = 8  # registers of sums in a wave of 32; RDNA 3 has each factor twice


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


def accesses(instructions: Mapping[int, Instruction], records: Sequence[Record]) -> dict[int, Access]:
    """Return the access of each instruction of a kernel, by the number of its record."""
    return {
        place: _pair(one, records[place + 1 :][:_HALVES]) if one.base == "VOPD" else _access(one, records[place], place)
        for place, one in instructions.items()
    }


def _access(one: Instruction, record: Record, place: int) -> Access:
    if record.handler in ("s_endpgm", "s_trap"):  # also what no wave can come to
        return Access(one.name, OTHER)
    if record.handler == "s_nop":
        return _without_registers(one, record)
    if record.handler in ("set_mode", "get_mode"):
        to_mode = frozenset((MODE,))
        return Access(one.name, SALU, to_mode, to_mode if record.handler == "set_mode" else frozenset(), flows=(1,))
    if record.handler.startswith(("mfma", "wmma_")):
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
        written = frozenset(SCALARS + n for n in writes)
        return Access(one.name, SALU, writes=written, flows=() if one.name in CALLS else (1,))
    away = record.target - place
    flows = (away,) if record.handler == "s_branch" else (1, away) if "cbranch" in record.handler else (1,)
    return Access(one.name, OTHER, flows=flows)


def _without_registers(one: Instruction, record: Record) -> Access:
    """Return the access of an instruction that only takes time; what a mutant leaves out takes none."""
    kind = OTHER
    if record.immediate >= 0:
        is_wait = one.name == "s_waitcnt_depctr" and not one.get("simm16") >> _RESULTS
        kind = WAIT if is_wait else VMEM if one.base == "MUBUF" else VALU if one.name == "v_nop" else OTHER
    return Access(one.name, kind, states=1 + record.immediate, flows=(1,))


def _pair(one: Instruction, halves: Sequence[Record]) -> Access:
    """Return the access of two vector instructions that are issued together."""
    names = one.name.split()
    reads, writes = set[int](), set[int]()
    for name, half in zip(names, halves, strict=True):
        for source in half.sources[: 1 if "mov" in name else 2]:
            reads.update(_registers(source, 1))
        writes.add(half.destination)
        if _ADDS_TO_RESULT.match(name):
            reads.add(half.destination)
    return Access(one.name, VALU, frozenset(reads), frozenset(writes), flows=(1 + _HALVES,))


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
    if _ADDS_TO_RESULT.match(one.name):
        reads |= {record.destination}
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
    if record.handler.startswith("mfma"):
        each = 2 if record.handler == "mfma_f64" else 1  # registers of a number
        blocks = record.parameters[_BLOCKS]
        count = each * rows * rows * blocks // 64
        sizes = [
            each * -(-depth * rows * blocks // 64 // (4 if kind >= _BYTES else 2 if kind in _SHORT else 1))
            for kind in kinds
        ]
    else:
        count = _SUMS_OF_WMMA // (2 if record.handler == "wmma_rdna4" and record.parameters[4] else 1)
        copies = 2 if record.handler == "wmma_rdna3" else 1
        sizes = [copies * (4 if kind in _SHORT else 2) for kind in kinds]
    factors: set[int] = set()
    for source, size in zip(record.sources[:2], sizes, strict=True):
        factors.update(_registers(source, size))
    summand = frozenset(_registers(record.sources[2], count))
    written = frozenset(range(record.destination, record.destination + count))
    return Access(one.name, MFMA, frozenset(factors), written, summand=summand, flows=(1,))


def _memory(one: Instruction, record: Record) -> Access:
    count = record.parameters[1] * (2 if record.handler == "memory_atomic" else 1)
    is_buffer = one.base in _BUFFERS
    is_wide = record.half & record.half_high if is_buffer else record.half  # an index and an offset, or 64 bits
    reads = {
        *_registers(record.sources[0], 1 + is_wide),
        *_registers(record.sources[1], 4 if is_buffer else 1 if one.base in _PRIVATE else 2),
        *_registers(record.sources[2], 1),
    }
    if record.handler == "memory_load":
        written = range(record.destination, record.destination + count)
        return Access(one.name, VMEM, frozenset(reads), frozenset(written), flows=(1,))
    return Access(one.name, VMEM, frozenset((*reads, *_registers(record.sources[3], count))), flows=(1,))


def _lds(one: Instruction, record: Record) -> Access:
    address, count = _registers(record.sources[0], 1), record.parameters[1] or 1
    if record.handler == "lds_atomic":
        return _lds_atomic(one, record, frozenset(address))
    if record.handler.startswith("lds_write"):
        pairs = 2 if record.parameters[4] == 2 else 1
        data = [*_registers(record.sources[2], count), *(_registers(record.sources[3], count) if pairs == 2 else ())]
        return Access(one.name, LDS, frozenset((*address, *data)), flows=(1,))
    several = record.parameters[4] if record.handler == "lds_read" else 1
    written = range(record.destination, record.destination + count * max(1, several))
    return Access(one.name, LDS, frozenset(address), frozenset(written), flows=(1,))


def _lds_atomic(one: Instruction, record: Record, address: frozenset[int]) -> Access:
    count, values = record.parameters[1], record.parameters[2]
    data = {number for source in record.sources[2 : 2 + values] for number in _registers(source, count)}
    written = _registers(Operand(VECTOR, record.destination), count) if record.clamp else ()
    return Access(one.name, LDS, frozenset((*address, *data)), frozenset(written), flows=(1,))
