"""Decoded instructions to records of the interpreter. What it does not know ends here, with the opcode's name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpu_emulators.amd.decoding import GFX1250, RDNA2, family_of
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.names import common, precision_of
from gpu_emulators.amd.operands import operand, signed
from gpu_emulators.amd.records import CONSTANT, SCALAR, Operand, Record
from gpu_emulators.amd.translate_memory import lds_access, memory_access
from gpu_emulators.amd.translate_vector import dual_half, vector_instruction
from gpu_emulators.common.errors import UnknownInstructionError

_SCALAR_LOADS = {
    **{f"dword{suffix}": count for suffix, count in {"": 1, "x2": 2, "x4": 4, "x8": 8, "x16": 16}.items()},
    **{f"b{32 * count}": count for count in (1, 2, 3, 4, 8, 16)},
}
_SHORT_LOADS = {"u8": (1, 0), "i8": (1, 1), "u16": (2, 0), "i16": (2, 1)}  # the bytes, and whether there is a sign
_MEMORY = ("GLOBAL", "FLAT", "SCRATCH", "MUBUF", "VGLOBAL", "VFLAT", "VSCRATCH", "VBUFFER")
_NULL = 124
_SCALE = 5  # the parameter of an access: what its offset is multiplied with
_MOST_STATES = 15  # that s_nop waits in addition to its own
_MODE = 1  # the number of that register of the hardware
_REPLAYS = (1, 25, 1)  # of gfx1250: the bit of MODE that says how a fault of memory is repeated
_UPPER_OF_REGISTERS = 0xFF000  # of gfx1250: the bits of MODE that gfx1250.py follows
_PRIVATE = (20, 21)  # of RDNA 2: the halves of where flat accesses find private memory, which need no such number here
_CLUSTER = (28, 6, 4)  # of gfx1250: the bits of IB_STS2 that say how the cluster is formed
_MODE_FIELDS = {"s_round_mode": 0, "s_denorm_mode": 4}  # the first of four bits
_RELEASE_REGISTERS, _INTERRUPT = 3, 1  # messages: before a wave's end, and to the host, which does not listen
_RECORDS_OF_PAIR = 3  # the pair, and each of its halves
_ABORT, _DEBUG = 2, 3  # of s_trap: llvm.trap, and llvm.debugtrap, which does nothing where there is no debugger


@dataclass(frozen=True)
class Translation:
    """The records of a kernel, which instruction each record belongs to, and which of them a wave can come to."""

    records: Sequence[Record]
    instructions: Mapping[int, Instruction]  # by the number of the record
    reached: Collection[int]  # addresses

    def record_at(self, address: int) -> int:
        """Return the number of the record at an address of the kernel."""
        return next(number for number, one in self.instructions.items() if one.address == address)


def translate(instructions: Sequence[Instruction], target: str, starts: Sequence[int] = (0,)) -> Translation:
    """Return the records of a kernel's instructions, which a wave begins at ``starts``.

    Raises:
        UnknownInstructionError: there is an instruction that the emulator does not know.
    """
    numbers, count = {}, 0
    for one in instructions:
        numbers[one.address] = count
        count += _RECORDS_OF_PAIR if one.base == "VOPD" else 1
    records: list[Record] = []
    reached = _reached(instructions, starts)
    for one in instructions:
        if one.address not in reached:
            records += [Record("s_endpgm")] * (_RECORDS_OF_PAIR if one.base == "VOPD" else 1)
            continue
        try:
            records += _records(one, target, numbers)
        except UnknownInstructionError as error:
            raise UnknownInstructionError(f"{target}: {error} (at {one.address:#x} of the kernel)") from None
    _mark_spills(records)
    return Translation(records, {numbers[one.address]: one for one in instructions}, reached)


def _mark_spills(records: Sequence[Record]) -> None:
    """Let a lane be read that nobody wrote, of a register that has scalars in its lanes.

    A compiler spills scalars there, also one that has no value yet on some way through the code.
    """
    spilled = {one.destination for one in records if one.handler == "v_writelane_b32"}
    for one in records:
        first, lane = one.sources[:2]
        if one.handler == "v_readlane_b32" and first.number in spilled and lane.kind == CONSTANT:
            one.clamp = 1


def unknown(
    instructions: Sequence[Instruction], target: str, starts: Sequence[int], handlers: Collection[str]
) -> list[str]:
    """Return what the emulator does not know of instructions: opcodes, and forms of them, in order of their names."""
    numbers, lacking = {one.address: 0 for one in instructions}, set()
    reached = _reached(instructions, starts)
    for one in (each for each in instructions if each.address in reached):
        try:
            made = _records(one, target, numbers)
        except UnknownInstructionError as error:
            lacking.add(str(error))
        else:
            lacking |= {record.handler for record in made} - set(handlers)
    return sorted(lacking)


def _reached(instructions: Sequence[Instruction], starts: Sequence[int]) -> set[int]:
    """Return the addresses of the instructions that a wave can come to: a loop that halts behind a trap is not."""
    places = {one.address: one for one in instructions}
    ways, reached = [*starts], set[int]()
    while ways:
        address = ways.pop()
        if address in reached or address not in places:
            continue
        reached.add(address)
        one = places[address]
        is_abort = one.name == "s_trap" and one.get("simm16") == _ABORT
        is_end = is_abort or one.name in ("s_endpgm", "s_branch", "s_setpc_b64")
        ways += [] if is_end else [address + one.size]
        ways += [_aim(one)] if one.base == "SOPP" and "branch" in one.name else []
    return reached


def _aim(branch: Instruction) -> int:
    """Return the address that a branch leads to."""
    return branch.address + 4 + 4 * signed(branch.get("simm16"), 16)


def _records(one: Instruction, target: str, numbers: Mapping[int, int]) -> list[Record]:
    family = family_of(target)
    if one.base == "VOPD":
        pair = Record("v_dual", parameters=[2 if one.name.split()[0].endswith("64") else 1, 0, 0, 0, 0, 0])
        return [pair, dual_half(one, "x"), dual_half(one, "y")]
    name = common(one.name)
    if name == "s_nop":
        return [Record(name, immediate=one.get("simm16") & _MOST_STATES if one.name == name else 0)]
    if one.base == "SOPP":
        return [_control(one, name, numbers)]
    if name.startswith(("s_getreg_", "s_setreg_")):
        return [_mode(one, target)]
    if one.base in ("SOP1", "SOP2", "SOPC", "SOPK"):
        return [_scalar(one, name, family)]
    if one.base == "SMEM":
        return [_scalar_load(one, family)]
    if one.base in _MEMORY:
        return [memory_access(one, target)]
    if one.base == "DS":
        return [lds_access(one, family)]
    return [vector_instruction(one, name, target)]


def _control(one: Instruction, name: str, numbers: Mapping[int, int]) -> Record:
    record = Record(name, immediate=one.get("simm16"))
    if name in _MODE_FIELDS:
        record.handler, record.parameters[:2] = "set_mode", (_MODE_FIELDS[name], 4)
        record.sources[0] = Operand(CONSTANT, 0, one.get("simm16") & 15)
    if "branch" in name:
        address = _aim(one)
        if address not in numbers:
            raise UnknownInstructionError(f"{name} to {address:#x}, which is no instruction")
        record.target = numbers[address]
    if name == "s_trap" and one.get("simm16") != _ABORT:
        if one.get("simm16") != _DEBUG:
            raise UnknownInstructionError(f"{name} {one.get('simm16')}")
        return Record("s_nop")
    if name == "s_sendmsg" and one.get("simm16") in (_RELEASE_REGISTERS, _INTERRUPT):
        return Record("s_nop")
    return record


def _scalar(one: Instruction, name: str, family: str) -> Record:
    record = Record(name, scalar_destination=one.get("sdst"), precision=precision_of(name))
    if "_wait" in name and one.get("sdst") != _NULL:
        raise UnknownInstructionError(f"{one.name} with a register")
    if one.base == "SOPK":
        record.immediate = signed(one.get("simm16"), 16)
        return record
    for place, field in enumerate(("ssrc0", "ssrc1")):
        if field in one.fields:
            record.sources[place] = operand(one, one.fields[field], place, is_cdna=family == "cdna")
    if name in ("s_fmaak_f32", "s_fmamk_f32"):
        record.immediate = one.literal or 0
    if name in ("s_getpc_b64", "s_swappc_b64"):
        record.immediate = one.address + one.size  # where the next one is, from the kernel's beginning on
    return record


def _mode(one: Instruction, target: str) -> Record:
    """Return the record of an access to some bits of MODE.

    Raises:
        UnknownInstructionError: it is to another register of the hardware.
    """
    word = one.get("simm16")
    number, first, bits = word & 63, word >> 6 & 31, (word >> 11) + 1
    if target in GFX1250 and (number, first, bits) == _REPLAYS and "set" in one.name:
        return Record("s_nop")
    if target in GFX1250 and (number, first, bits) == _CLUSTER and "get" in one.name:
        return Record("s_mov_b32", scalar_destination=one.get("sdst"))  # of zero: there are no clusters
    if target in RDNA2 and number in _PRIVATE and "set" in one.name:
        return Record("s_nop")
    if number != _MODE:
        raise UnknownInstructionError(f"{one.name} of the register {number} of the hardware")
    record = Record("get_mode" if "get" in one.name else "set_mode", scalar_destination=one.get("sdst"))
    literal = (one.literal or 0) & ~(_UPPER_OF_REGISTERS >> first if target in GFX1250 else 0)
    record.sources[0] = Operand(CONSTANT, 0, literal) if "imm" in one.name else Operand(SCALAR, one.get("sdst"))
    record.parameters[:2] = (first, bits)
    return record


def _scalar_load(one: Instruction, family: str) -> Record:
    kind, _, size = one.name.rpartition("_")
    if kind != "s_load" or size not in {**_SCALAR_LOADS, **_SHORT_LOADS}:
        raise UnknownInstructionError(one.name)
    width = 24 if family == "rdna4" else 21
    has_offset = one.get("soffset_en") if family == "cdna" else one.get("soffset") != _NULL
    record = Record("scalar_load", scalar_destination=one.get("sdata"))
    record.immediate = signed(one.get("ioffset" if family == "rdna4" else "offset"), width)
    record.sources[0] = Operand(SCALAR, 2 * one.get("sbase"))
    record.sources[1] = Operand(SCALAR, one.get("soffset")) if has_offset else Operand(CONSTANT)
    if family == "cdna" and not (one.get("imm") or has_offset):  # the offset is the number of a register
        record.sources[1], record.immediate = Operand(SCALAR, one.get("offset") & 127), 0
    record.parameters[1] = _SCALAR_LOADS.get(size, 1)
    record.parameters[2:4] = _SHORT_LOADS.get(size, (4, 0))
    if one.get("scale_offset"):
        record.parameters[_SCALE] = record.parameters[1] * record.parameters[2]
    return record
