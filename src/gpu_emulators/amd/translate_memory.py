"""Records of what reads and writes memory: global memory, buffers, private memory, and the LDS."""

from __future__ import annotations

import re

from gpu_emulators.amd.decoding import GFX1250, family_of
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.operands import operand, signed
from gpu_emulators.amd.records import CONSTANT, SCALAR, VECTOR, Operand, Record
from gpu_emulators.common.errors import UnknownInstructionError

_GLOBAL, _BUFFER, _SCRATCH, _FLAT, _LONG_BUFFER = range(5)  # the last has another descriptor
_SPACES = {
    "MUBUF": _BUFFER,
    "VBUFFER": _BUFFER,
    "SCRATCH": _SCRATCH,
    "VSCRATCH": _SCRATCH,
    "FLAT": _FLAT,
    "VFLAT": _FLAT,
}
# Bytes of an element, registers, and whether it has a sign.
_SIZES = {
    **dict.fromkeys(("ubyte", "u8", "byte", "b8"), (1, 1, 0)),
    **dict.fromkeys(("sbyte", "i8"), (1, 1, 1)),
    **dict.fromkeys(("ushort", "u16", "short", "b16"), (2, 1, 0)),
    **dict.fromkeys(("sshort", "i16"), (2, 1, 1)),
    **dict.fromkeys(("dword", "b32"), (4, 1, 0)),
    **dict.fromkeys(("dwordx2", "b64"), (4, 2, 0)),
    **dict.fromkeys(("dwordx3", "b96"), (4, 3, 0)),
    **dict.fromkeys(("dwordx4", "b128"), (4, 4, 0)),
}
# What native/memory_ops.cc does with the old value, by the place here: names of CDNA, and of RDNA without the size.
_ATOMICS = (
    ("add", "add_u"),
    ("swap", "swap_b"),
    ("smax", "max_i"),
    ("umax", "max_u"),
    ("smin", "min_i"),
    ("umin", "min_u"),
    ("and", "and_b"),
    ("or", "or_b"),
    ("xor", "xor_b"),
    ("sub", "sub_u"),
    ("cmpswap", "cmpswap_b"),
    ("add_f",),
    ("max_f", "max_num_f"),
    ("min_f", "min_num_f"),
    ("pk_add_f16",),
    ("pk_add_bf16",),
    ("inc", "inc_u"),
    ("dec", "dec_u"),
    ("rsub_u",),
    ("cmpswap_f", "fcmpswap"),
)
_ATOMIC_SIZES = re.compile(r"(_x2|32|64)?$")
_WITH_TWO_VALUES = (10, 19)  # an exchange if the old value is as expected: the same bits, or the same number
_NO_SCALAR = (124, 125, 127)  # as the address of an access
_ACCUMULATORS = 256  # the first of them
_SPACE, _SCALE = 4, 5  # the parameters: where memory is, and what an offset is multiplied with
_RETURNS = 1  # the bit of an atomic's temporal hint on RDNA 4: the old value comes back


def memory_access(one: Instruction, target: str) -> Record:
    """Return the record of a load, a store or an atomic.

    Raises:
        UnknownInstructionError: the emulator does not know it.
    """
    _, kind, what = [*one.name.split("_", 2), ""][:3]
    space, family = _SPACES.get(one.base, _GLOBAL), family_of(target)
    record = Record()
    (_buffer if space == _BUFFER else _flat)(one, record, family)
    if kind == "atomic":
        _atomic(one, record, what, family)
    else:
        _load_or_store(one, record, kind, what)
    record.parameters[_SPACE] = _LONG_BUFFER if space == _BUFFER and target in GFX1250 else space
    if one.get("scale_offset"):
        record.parameters[_SCALE] = record.parameters[0] * record.parameters[1]
    return record


def _load_or_store(one: Instruction, record: Record, kind: str, what: str) -> None:
    if kind not in ("load", "store"):
        raise UnknownInstructionError(one.name)
    part = 2 if "d16_hi" in what else 1 if "d16" in what else 0
    size = re.sub(r"_?d16(_hi)?_?", "", what)
    if size not in _SIZES or one.get("lds"):
        raise UnknownInstructionError(one.name)
    record.handler = f"memory_{kind}"
    record.parameters[:4] = (*_SIZES[size], part)


def _accumulator(one: Instruction, family: str) -> int:
    return _ACCUMULATORS if family == "cdna" and one.get("acc") else 0


def _buffer(one: Instruction, record: Record, family: str) -> None:
    is_new = family == "rdna4"
    has_address = one.get("offen") or one.get("idxen")
    resource = one.get("rsrc") if is_new else 4 * one.get("srsrc")
    data = one.get("vdata") + _accumulator(one, family)
    record.sources[0] = Operand(VECTOR, one.get("vaddr")) if has_address else Operand(CONSTANT)
    record.sources[1] = Operand(SCALAR, resource)
    record.sources[2] = operand(one, one.get("soffset"), is_cdna=family == "cdna", kind="b32")
    record.sources[3] = Operand(VECTOR, data)
    record.destination = data
    record.half, record.half_high = one.get("offen"), one.get("idxen")
    record.immediate = one.get("ioffset" if is_new else "offset")


def _flat(one: Instruction, record: Record, family: str) -> None:
    is_new, space = family == "rdna4", _SPACES.get(one.base, _GLOBAL)
    width = 24 if is_new else 13
    offset, scalar = one.get("ioffset" if is_new else "offset"), one.get("saddr")
    has_scalar = (is_new or space != _FLAT) and scalar not in _NO_SCALAR  # of flat accesses gfx1250 alone has it
    has_vector = space != _SCRATCH or one.get("sve")
    record.immediate = signed(offset, width) if is_new or space != _FLAT else offset
    record.sources[0] = Operand(VECTOR, one.get("vaddr" if is_new else "addr")) if has_vector else Operand(CONSTANT)
    record.sources[1] = Operand(SCALAR, scalar) if has_scalar else Operand(CONSTANT)
    record.half = int(space != _SCRATCH and not has_scalar)
    record.destination = one.get("vdst") + _accumulator(one, family)
    record.sources[3] = Operand(VECTOR, one.get("vsrc" if is_new else "data") + _accumulator(one, family))


def _atomic(one: Instruction, record: Record, what: str, family: str) -> None:
    size = _ATOMIC_SIZES.search(what)
    name = what[: size.start()] if size else what
    place = next((place for place, names in enumerate(_ATOMICS) if name in names), None)
    if place is None:
        raise UnknownInstructionError(one.name)
    returns = {"cdna": one.get("sc0"), "rdna3": one.get("glc"), "rdna4": one.get("th") & _RETURNS}[family]
    record.handler, record.target, record.clamp = "memory_atomic", place, int(bool(returns))
    count = 2 if size and size[1] in ("_x2", "64") else 1
    values = 2 if place in _WITH_TWO_VALUES else 1
    record.parameters[:4] = (4, count, values, 0)


_LDS = re.compile(r"ds_(read|write)(2st64|2)?_([a-z]\d+)(_d16(?:_hi)?|_tr_b(?:8|16))?")
_TRANSPOSED = re.compile(r"ds_load_tr(8|16)_b(64|128)")
_LDS_NAMES = (
    ("_load_", "_read_"),
    ("_store_", "_write_"),
    ("2addr_stride64_", "2st64_"),
    ("2addr_", "2_"),
    ("read_2", "read2"),
    ("write_2", "write2"),
)
_LDS_ATOMIC = re.compile(
    r"ds_(pk_add_bf16|pk_add_f16|(?:(?:add|sub|rsub|inc|dec)_u|(?:min|max)_[iu]|(?:and|or|xor)_b|(?:add|min|max)_f)(?:32|64)"
    r"|(?:wrxchg|storexchg)_b(?:32|64)|(?:cmpst|cmpstore)_[bf](?:32|64))"
)
_LDS_NAMES_OF_ATOMICS = {
    "wrxchg_b": "swap_b",
    "storexchg_b": "swap_b",
    "cmpst_b": "cmpswap_b",
    "cmpstore_b": "cmpswap_b",
    "cmpst_f": "cmpswap_f",
    "cmpstore_f": "cmpswap_f",
}
_EXCHANGES = ("ds_bpermute_b32", "ds_permute_b32", "ds_swizzle_b32")


def lds_access(one: Instruction, family: str) -> Record:
    """Return the record of an access to the LDS, or of an exchange between lanes.

    Raises:
        UnknownInstructionError: the emulator does not know it.
    """
    name = one.name
    for old, new in _LDS_NAMES:
        name = name.replace(old, new)
    if one.get("gds"):
        raise UnknownInstructionError(f"{one.name} gds")
    accumulator = _accumulator(one, family)
    record = Record(name, destination=one.get("vdst") + accumulator)
    record.sources[0] = Operand(VECTOR, one.get("addr"))
    record.sources[2] = Operand(VECTOR, one.get("data0") + accumulator)
    record.sources[3] = Operand(VECTOR, one.get("data1") + accumulator)
    first, second = one.get("offset0"), one.get("offset1")
    if match := _TRANSPOSED.fullmatch(one.name):  # of gfx1250
        record.handler, record.immediate, record.target = "lds_read_transposed", first | second << 8, int(match[1]) + 2
        record.parameters[:] = (*_SIZES[f"b{match[2]}"], 0, 1, 1)
        return record
    if match := _LDS.fullmatch(name):
        size, count, sign = _SIZES[match[3]]
        is_transposed = bool(match[4]) and match[4].startswith("_tr_")
        part = 0 if not match[4] or is_transposed else 2 if match[4].endswith("hi") else 1
        factor = (64 if match[2] == "2st64" else 1) * 4 * count if match[2] else 1
        record.handler = f"lds_{match[1]}{'_transposed' if is_transposed else ''}"
        record.parameters[:] = (size, count, sign, part, 2 if match[2] else 1, factor)
        record.immediate, record.target = (first, second) if match[2] else (first | second << 8, 0)
        if is_transposed:
            record.target = 1 if match[4] == "_tr_b8" else 2
        return record
    if match := _LDS_ATOMIC.fullmatch(name.replace("_rtn", "").replace("_num", "")):
        return _lds_atomic(match[1], "_rtn" in name, record, first | second << 8, family)
    if name not in _EXCHANGES:
        raise UnknownInstructionError(one.name)
    is_swizzle = name == "ds_swizzle_b32"
    record.immediate, record.target = (first, second) if is_swizzle else (first | second << 8, 0)
    return record


def _lds_atomic(what: str, returns: bool, record: Record, offset: int, family: str) -> Record:
    stem, width = (what, "") if what.startswith("pk_") else (what[:-2], what[-2:])
    stem = _LDS_NAMES_OF_ATOMICS.get(stem, stem)
    place = next(place for place, names in enumerate(_ATOMICS) if stem in names)
    values = 2 if place in _WITH_TWO_VALUES else 1
    if values == 2 and family == "cdna":  # there the expected value comes first
        record.sources[2], record.sources[3] = record.sources[3], record.sources[2]
    record.handler, record.target, record.clamp, record.immediate = "lds_atomic", place, int(returns), offset
    record.parameters[:] = (4, 2 if width == "64" else 1, values, 0, 1, 1)
    return record
