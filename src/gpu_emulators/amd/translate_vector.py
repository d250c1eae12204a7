"""Records of vector instructions: operands, modifiers, DPP, SDWA, halves of registers, and products of matrices."""

from __future__ import annotations

import re
from dataclasses import replace

from gpu_emulators.amd.decoding import GFX1250, RDNA2, family_of
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.names import common, is_half, precision_of
from gpu_emulators.amd.operands import FLOATS, operand
from gpu_emulators.amd.records import CONSTANT, SCALAR, SIGNED, VECTOR, WHOLE, Operand, Record
from gpu_emulators.common.errors import UnknownInstructionError

_VCC, _EXEC, _RESULT = 106, 126, 3
_ACCUMULATORS = 256  # the first of them
_NAMES = {"VOP1": ("src0",), "VOP2": ("src0", "vsrc1"), "VOPC": ("src0", "vsrc1")}
_TO_SCALAR = ("v_readfirstlane_b32", "v_readlane_b32")
_LONG_CONSTANTS = ("v_fmamk_f64", "v_fmaak_f64")
_WITH_LITERAL = ("v_fmamk_f32", "v_fmaak_f32", "v_madmk_f32", "v_madak_f32", "v_fmamk_f16", "v_fmaak_f16")
_PRODUCTS_OF_PAIRS = ("v_dot2_bf16_bf16", "v_dot2_f16_f16")
_SATURATED = re.compile(
    r"v_(?:pk_)?(?:add|sub|subrev)_[iu](?:16|32)|v_(?:add|addc|sub|subb|subrev|subbrev)_co_u32|v_mad_[iu]16"
)
_TO_RANGE = 2  # what a clamp is of integers
_KEEPS_HALF = 5  # the parameter: whether the other half of the destination stays as it is
_BLOCKS = 5  # the parameter: how many products of matrices are made at once
_ALSO_EXEC = 0  # of a comparison: whether it writes EXEC in addition to its destination
_MATRIX_TYPES = {"f32": 0, "f16": 1, "bf16": 2, "xf32": 3, "i8": 4, "iu8": 5, "fp8": 6, "bf8": 7, "f64": 10}
_MFMA = re.compile(
    r"v_mfma_(?:f32|f64|i32(?=.*i8))_(\d+)x\d+x(\d+)_?(?:(\d+)b_)?(?:(xf32|f64|f32|f16|bf16|i8)(?:_1k)?|(fp8|bf8)_(fp8|bf8)|f8f6f4)"
)
_WMMA = re.compile(r"v_wmma_(?:(f32|f16|bf16)_16x16x16_(f16|bf16)|i32_16x16x16_(iu8)|f32_16x16x16_(fp8|bf8)_(fp8|bf8))")
_WMMA_OF_GFX1250 = re.compile(
    r"v_wmma_(?:(f32|f16|bf16)_16x16x(?:4|32)_(f32|f16|bf16)|i32_16x16x64_(iu8)|f32_16x16x(?:64|128)_(fp8|bf8)_(fp8|bf8))"
)
_SMALL = re.compile(r"v_cvt_(scalef32_pk8_|scalef32_pk_|pk_|)(fp8|bf8|f32|f16|bf16)_(fp8|bf8|f32|f16|bf16)")
_DIGITS = {"fp8": 3, "bf8": 2}  # behind the point
_OTHERS = ("f32", "f16", "bf16")  # what numbers of 8 bits are made of, and become
_FLOAT = re.compile(r"f(16|32|64)$")


def vector_instruction(one: Instruction, name: str, target: str) -> Record:
    """Return the record of a vector instruction.

    Raises:
        UnknownInstructionError: the emulator does not know a modifier or an operand of it.
    """
    family = family_of(target)
    record = Record(name, destination=one.get("vdst"), precision=precision_of(name))
    if "DPP8" in one.encoding:
        raise UnknownInstructionError(f"{one.name} dpp8")
    if "mfma" in name:
        return _mfma(one, name, record, target)
    _set_sources(one, family, record)
    _set_variant(one, record)
    _set_destination(one, name, record)
    if one.base in ("VOP3", "VOP3SD"):
        _set_modifiers(one, name, record)
    elif one.base == "VOP3P":
        _set_packed(one, name, target, record)
    if name in _WITH_LITERAL:
        record.immediate = one.literal or 0
    if name in _LONG_CONSTANTS:
        _set_long_constant(one, name, record)
    if family != "cdna":
        _set_halves(one, name, record, has_halves=target not in RDNA2)
    if name.startswith("v_cmpx_"):
        record.handler = name.replace("cmpx", "cmp")
        record.parameters[_ALSO_EXEC] = 1
        if family != "cdna":
            record.scalar_destination = _EXEC
    _refuse(one, name, record)
    if (match := _SMALL.fullmatch(name)) and {match[2], match[3]} & set(_DIGITS):
        _set_small(one, match, record, _older(target))
    return record


def _set_long_constant(one: Instruction, name: str, record: Record) -> None:
    """Make a product and a sum of doubles of an instruction with a constant of 64 bits."""
    record.handler = "v_fma_f64"
    if "fmamk" in name:
        record.sources[2] = record.sources[1]
    record.sources[1 if "fmamk" in name else 2] = Operand(CONSTANT, 0, one.literal or 0)


def _older(target: str) -> int:
    """Return whether numbers of 8 bits are in AMD's older formats, which the Open Compute Project has not taken."""
    return int(target in ("gfx940", "gfx941", "gfx942"))


def _set_small(one: Instruction, match: re.Match[str], record: Record, older: int) -> None:
    """Set what a conversion from or to 8 bits needs."""
    form, to, source = match.groups()
    is_from, is_scaled = source in _DIGITS, form.startswith("scale")
    small, other = (source, to) if is_from else (to, source)
    has_signs = (record.negate or record.absolute) and (is_from or other != "f32")
    if has_signs or record.clamp or record.scale or not (other == "f32" or is_scaled):
        raise UnknownInstructionError(f"{one.name} of this form")
    record.handler = "from_small" if is_from else "to_small"
    record.parameters[:5] = (_DIGITS[small], older, _OTHERS.index(other), 2 if form else 1, int(is_scaled))
    record.parameters[_KEEPS_HALF] = int(not is_from)
    if "pk8" in form:
        record.handler = "to_eight_small"


def _refuse(one: Instruction, name: str, record: Record) -> None:
    """Refuse modifiers that only some operations have."""
    if name in _PRODUCTS_OF_PAIRS and (record.negate or record.absolute or record.clamp):
        raise UnknownInstructionError(f"{one.name} with modifiers")
    is_float = bool(_FLOAT.search(name)) or "cndmask" in name or "cvt_f32" in name or "class" in name
    if (record.negate or record.absolute) and not is_float and one.base != "VOP3P":
        raise UnknownInstructionError(f"{one.name} with neg or abs")
    if _SATURATED.fullmatch(name) and not record.scale:
        record.clamp *= _TO_RANGE
        return
    is_scaled = is_float and "cvt_pk" not in name and "f64" not in name and "cndmask" not in name
    if (record.clamp or record.scale) and not is_scaled:
        raise UnknownInstructionError(f"{one.name} with clamp or omod")
    if (record.clamp or record.scale) and name in (*_WITH_LITERAL, "v_div_scale_f32"):
        raise UnknownInstructionError(f"{one.name} with clamp or omod")


def _set_sources(one: Instruction, family: str, record: Record) -> None:
    is_sdwa = "SDWA" in one.encoding
    for place, field in enumerate(_NAMES.get(one.base, ("src0", "src1", "src2"))):
        if field not in one.fields and not (place == 0 and "vsrc0" in one.fields):
            continue
        number = one.get(field) + (256 if field == "vsrc1" else 0)
        if place == 0 and "DPP16" in one.encoding:
            number = one.get("vsrc0") + 256
        if place == 0 and is_sdwa:
            number = one.get("vsrc0") + (0 if one.get("s0") else 256)
        if place == 1 and is_sdwa and one.get("s1"):
            number -= 256
        record.sources[place] = operand(one, number, place, is_cdna=family == "cdna")


def _set_variant(one: Instruction, record: Record) -> None:
    if "DPP16" not in one.encoding and "SDWA" not in one.encoding:
        return
    record.negate = one.get("src0_neg") | one.get("src1_neg") << 1
    record.absolute = one.get("src0_abs") | one.get("src1_abs") << 1
    if "DPP16" in one.encoding:
        fields = ("dpp", "bc", "row_mask", "bank_mask", "fi")
        record.dpp = tuple(one.get(field) for field in fields)  # type: ignore[assignment]
        return
    first, second = (one.get(f"{source}_sel") | SIGNED * one.get(f"{source}_sext") for source in ("src0", "src1"))
    destination = one.get("dst_sel") if "SDST" not in one.encoding else WHOLE
    record.selections = first, second if one.base != "VOP1" else WHOLE, destination
    record.unused, record.scale, record.clamp = one.get("dst_unused"), one.get("omod"), one.get("clmp")


def _set_destination(one: Instruction, name: str, record: Record) -> None:
    if one.base == "VOPC":
        record.scalar_destination = one.get("sdst") if "SDST" in one.encoding and one.get("sd") else _VCC
    if one.base in ("VOP1", "VOP2") and ("_co_" in name or "cndmask" in name):
        record.scalar_destination = _VCC
        record.sources[2] = Operand(SCALAR, _VCC)
    if one.base == "VOP3SD":
        record.scalar_destination = one.get("sdst")
    if name in _TO_SCALAR or name.startswith("v_s_") or (one.base == "VOP3" and name.startswith("v_cmp")):
        record.scalar_destination = one.get("vdst")
    if name == "v_accvgpr_mov_b32":
        record.destination += _ACCUMULATORS
        record.sources[0] = Operand(VECTOR, record.sources[0].number + _ACCUMULATORS)


def _set_modifiers(one: Instruction, name: str, record: Record) -> None:
    if name.startswith("v_bitop3_"):  # its table is where other opcodes have modifiers
        record.target = one.raw >> 61 & 7 | (one.raw >> 8 & 7) << 3 | (one.raw >> 59 & 3) << 6
        record.half = one.get("opsel")
        return
    record.negate, record.absolute = one.get("neg"), one.get("abs")
    record.scale, record.half = one.get("omod"), one.get("opsel")
    record.clamp = 0 if name.startswith("v_cmp") else one.get("clmp")


def _set_packed(one: Instruction, name: str, target: str, record: Record) -> None:
    record.negate, record.clamp = one.get("neg"), one.get("clmp")
    record.half, record.negate_high = one.get("opsel"), one.get("neg_hi")
    record.half_high = one.get("opsel_hi") | one.get("opsel_hi2") << 2
    if name.startswith("v_accvgpr"):
        record.negate = record.clamp = 0
        if "read" in name:
            record.sources[0] = Operand(VECTOR, (one.get("src0") & 255) + _ACCUMULATORS)
        else:
            record.destination += _ACCUMULATORS
    if "_mix" in name and any(record.half_high >> place & 1 and one.get(f"src{place}") in FLOATS for place in range(3)):
        raise UnknownInstructionError(f"{one.name} with a constant that is read as fp16")
    if name.startswith("v_pk_") and name.endswith("f32") and target in GFX1250:
        for place, source in enumerate(record.sources):
            if source.kind == SCALAR:  # one register, for both numbers
                record.half, record.half_high = record.half & ~(1 << place), record.half_high & ~(1 << place)
    if "wmma" in name:
        match = (_WMMA_OF_GFX1250 if target in GFX1250 else _WMMA).fullmatch(name)
        if match is None or (record.negate and not match[3]) or record.negate_high or record.clamp:
            raise UnknownInstructionError(f"{one.name} of this form")
        left, right = (match[4], match[5]) if match[4] else [match[2] or match[3]] * 2
        record.parameters[2:5] = (_MATRIX_TYPES[left], _MATRIX_TYPES[right], _MATRIX_TYPES[match[1] or "f32"])
        record.handler = f"wmma_{family_of(target)}"
        if target in GFX1250:
            record.handler, record.parameters[1] = "wmma_gfx1250", int(name.split("_")[3].split("x")[2])


def _set_halves(one: Instruction, name: str, record: Record, *, has_halves: bool) -> None:
    """Set which halves are read and written: in short encodings of RDNA 3 bit 7 of a register's number says so."""
    if is_half(name, _RESULT) and not name.startswith("v_cmp"):
        record.parameters[_KEEPS_HALF] = 1
    if not has_halves or one.base not in ("VOP1", "VOP2", "VOPC"):
        return
    for place in range(3):
        source = record.sources[place]
        if source.kind == VECTOR and is_half(name, place) and source.number & 128:
            record.sources[place] = Operand(VECTOR, source.number & ~128)
            record.half |= 1 << place
    if is_half(name, _RESULT) and one.base != "VOPC" and record.destination & 128:
        record.destination &= ~128
        record.half |= 1 << _RESULT


def _mfma(one: Instruction, name: str, record: Record, target: str) -> Record:
    match = _MFMA.fullmatch(name)
    types = _types_of_mfma(one, match) if match else None
    if match is None or types is None:
        raise UnknownInstructionError(f"{one.name} of this form")
    accumulators = one.raw >> 59 & 3  # whether each factor is in them
    sum_in = _ACCUMULATORS if one.raw >> 15 & 1 else 0
    for place in range(2):
        first = _ACCUMULATORS if accumulators >> place & 1 else 0
        record.sources[place] = Operand(VECTOR, (one.get(f"src{place}") & 255) + first)
    is_double = types[0] == "f64"
    of_sum = replace(one, wide=one.wide | {2}, kinds=("f64",) * 3) if is_double else one
    third = operand(of_sum, one.get("src2"), 2, is_cdna=True)
    record.sources[2] = Operand(VECTOR, third.number + sum_in) if third.kind == VECTOR else third
    record.destination += sum_in
    numbers = (_MATRIX_TYPES[kind] + (2 * _older(target) if kind in _DIGITS else 0) for kind in types)
    record.parameters[:4] = (int(match[1]), int(match[2]), *numbers)
    record.parameters[_BLOCKS] = int(match[3] or 1)
    record.handler = "mfma_f64" if is_double else "mfma"
    if "f8f6f4" not in name:
        _set_lanes_of_factors(one, types[0], record, target)
    return record


def _set_lanes_of_factors(one: Instruction, kind: str, record: Record, target: str) -> None:
    """Set which lanes both factors of a product of matrices come from, or the signs of fp64.

    Raises:
        UnknownInstructionError: the opcode has no such modifier on the target.
    """
    size, place, pattern = one.get("cbsz"), one.get("abid"), one.get("blgp")
    blocks = record.parameters[_BLOCKS]
    has_pattern = kind == "f32" or blocks > 1 or target in ("gfx908", "gfx90a")
    if kind == "f64":
        blocks, has_pattern = 1, target != "gfx90a"
    if 1 << size > blocks or place >> size or (pattern and not has_pattern):
        raise UnknownInstructionError(f"{one.name} with cbsz {size}, abid {place}, blgp {pattern}")
    if kind == "f64":
        record.negate = pattern
    else:
        record.half, record.half_high, record.immediate = pattern, size, place


def _types_of_mfma(one: Instruction, match: re.Match[str]) -> tuple[str, str] | None:
    """Return the types of both factors; None where they are not known."""
    if "f8f6f4" in match[0]:  # the modifiers name the types here
        controls = one.get("cbsz"), one.get("blgp")
        first, second = (tuple(_DIGITS)[kind] if kind < len(_DIGITS) else "" for kind in controls)
        return (first, second) if first and second and not one.get("abid") else None
    return (match[4], match[4]) if match[4] else (match[5], match[6])


def dual_half(one: Instruction, half: str) -> Record:
    """Return the record of one of the two instructions that are issued together."""
    name = common(one.name.split()[half == "y"])
    is_long = one.encoding == "VOPD_LONG"
    vdst = one.get(f"vdst{half}")
    if half == "y" and not is_long:
        vdst = vdst << 1 | (~one.get("vdstx") & 1)
    record = Record(name, destination=vdst, precision=precision_of(name), negate=one.get(f"neg{half}"))
    kind = name.rpartition("_")[2]
    of_half = replace(one, wide=frozenset((0,))) if kind.endswith("64") else one
    record.sources[0] = operand(of_half, one.get(f"src{half}0"), is_cdna=False, kind=kind)
    record.sources[1] = Operand(VECTOR, one.get(f"vsrc{half}1"))
    if name == "v_cndmask_b32":
        record.sources[2] = Operand(SCALAR, one.get(f"vsrc{half}2") if is_long else _VCC)
    if name in ("v_fma_f32", "v_fma_f64"):
        record.sources[2] = Operand(VECTOR, one.get(f"vsrc{half}2"))
    if name == "v_bitop2_b32":
        record.handler, record.target = "v_bitop3_b32", one.get(f"vsrc{half}2")
    if record.negate and not (_FLOAT.search(name) or "cndmask" in name):
        raise UnknownInstructionError(f"{one.name} with neg")
    if name in _WITH_LITERAL:
        record.immediate = one.literal or 0
    return record
