"""Instructions of gfx1250 that RDNA 4, whose tables the decoder has, lacks or has in another form.

The numbers of opcodes and the places of fields are LLVM's; ``tests/toolchains/test_gfx_assembled.py`` compares
them with its assembler. What they do is from LLVM's documents of AMDGPU and from AMD's simulator rocjitsu.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.common.errors import UnknownInstructionError

_DOUBLES, _LONG = ("f64",) * 3, ("b64",) * 3
_PAIRS = ("pk2_f32",) * 3
_BF16, _FP16 = ("pk2_bf16",) * 3, ("pk2_f16",) * 3
_HALVES, _BYTES = ("pk2_f16", "pk2_f16", "f32"), ("b32", "b32", "f32")
# By encoding and opcode: the name, the registers of the result, and the kinds of the sources.
_VOP1 = {
    29: ("v_mov_b64", 2, ("b64",)),
    73: ("v_permlane16_swap_b32", 1, ("b32",)),
    114: ("v_cvt_f32_bf16", 1, ("bf16",)),
}
_VOP2 = {
    23: ("v_fmac_f64", 2, _DOUBLES[:2]),
    35: ("v_fmamk_f64", 2, _DOUBLES[:2]),
    36: ("v_fmaak_f64", 2, _DOUBLES[:2]),
    40: ("v_add_nc_u64", 2, _LONG[:2]),
    41: ("v_sub_nc_u64", 2, _LONG[:2]),
    42: ("v_mul_u64", 2, _LONG[:2]),
}
_ATOMICS_ON_DOUBLES = {85: "atomic_add_f64", 91: "atomic_min_num_f64", 92: "atomic_max_num_f64"}
OPCODES: Mapping[str, Mapping[int, tuple[str, int, Sequence[str]]]] = {
    "VOP1": _VOP1,
    "VOP2": _VOP2,
    "VOP3": {
        **{256 + opcode: one for opcode, one in _VOP2.items() if "mk" not in one[0] and "ak" not in one[0]},
        **{384 + opcode: one for opcode, one in _VOP1.items()},
        563: ("v_bitop3_b16", 1, ("b16",) * 3),
        564: ("v_bitop3_b32", 1, ("b32",) * 3),
        565: ("v_mad_u32", 1, ("u32",) * 3),
        594: ("v_lshl_add_u64", 2, ("u64", "u32", "u64")),
        692: ("v_cvt_scalef32_pk8_fp8_bf16", 2, ("pk2_bf16", "f32")),
        693: ("v_cvt_scalef32_pk8_bf8_bf16", 2, ("pk2_bf16", "f32")),
        707: ("v_cvt_scalef32_pk8_fp8_f32", 2, ("f32", "f32")),
        708: ("v_cvt_scalef32_pk8_fp8_f16", 2, ("pk2_f16", "f32")),
        709: ("v_cvt_scalef32_pk8_bf8_f32", 2, ("f32", "f32")),
        710: ("v_cvt_scalef32_pk8_bf8_f16", 2, ("pk2_f16", "f32")),
        762: ("v_mad_nc_u64_u32", 2, ("u32", "u32", "u64")),
        763: ("v_mad_nc_i64_i32", 2, ("i32", "i32", "i64")),
        792: ("v_min_u64", 2, ("u64",) * 2),
        793: ("v_max_u64", 2, ("u64",) * 2),
        794: ("v_min_i64", 2, ("i64",) * 2),
        795: ("v_max_i64", 2, ("i64",) * 2),
        877: ("v_cvt_pk_bf16_f32", 1, ("f32",) * 2),
        879: ("v_cvt_pk_f16_f32", 1, ("f32",) * 2),
    },
    "VOP3P": {
        31: ("v_pk_fma_f32", 2, _PAIRS),
        40: ("v_pk_mul_f32", 2, _PAIRS[:2]),
        41: ("v_pk_add_f32", 2, _PAIRS[:2]),
        17: ("v_pk_fma_bf16", 1, _BF16),
        35: ("v_pk_add_bf16", 1, _BF16[:2]),
        42: ("v_pk_mul_bf16", 1, _BF16[:2]),
        54: ("v_pk_minimum3_f16", 1, _FP16),
        55: ("v_pk_maximum3_f16", 1, _FP16),
        56: ("v_pk_min3_num_f16", 1, _FP16),
        57: ("v_pk_max3_num_f16", 1, _FP16),
        61: ("v_fma_mix_f32_bf16", 1, ("f32",) * 3),
        62: ("v_fma_mixlo_bf16", 1, ("f32",) * 3),
        63: ("v_fma_mixhi_bf16", 1, ("f32",) * 3),
        93: ("v_wmma_f32_16x16x4_f32", 8, ("f32",) * 3),
        96: ("v_wmma_f32_16x16x32_f16", 8, _HALVES),
        97: ("v_wmma_f16_16x16x32_f16", 4, _FP16),
        98: ("v_wmma_f32_16x16x32_bf16", 8, _HALVES),
        99: ("v_wmma_bf16_16x16x32_bf16", 4, _BF16),
        106: ("v_wmma_f32_16x16x64_fp8_fp8", 8, _BYTES),
        107: ("v_wmma_f32_16x16x64_fp8_bf8", 8, _BYTES),
        108: ("v_wmma_f32_16x16x64_bf8_fp8", 8, _BYTES),
        109: ("v_wmma_f32_16x16x64_bf8_bf8", 8, _BYTES),
        114: ("v_wmma_i32_16x16x64_iu8", 8, ("b32", "b32", "i32")),
        128: ("v_wmma_f32_16x16x128_fp8_fp8", 8, _BYTES),
        129: ("v_wmma_f32_16x16x128_fp8_bf8", 8, _BYTES),
        130: ("v_wmma_f32_16x16x128_bf8_fp8", 8, _BYTES),
        131: ("v_wmma_f32_16x16x128_bf8_bf8", 8, _BYTES),
    },
    "SOPP": {6: ("s_set_vgpr_msb", 0, ()), 69: ("s_wait_xcnt", 0, ())},
    "VGLOBAL": {opcode: (f"global_{name}", 2, ("f64",)) for opcode, name in _ATOMICS_ON_DOUBLES.items()},
    "VFLAT": {opcode: (f"flat_{name}", 2, ("f64",)) for opcode, name in _ATOMICS_ON_DOUBLES.items()},
    "VBUFFER": {opcode: (f"buffer_{name}", 2, ("f64",)) for opcode, name in _ATOMICS_ON_DOUBLES.items()},
    "DS": {
        84: ("ds_add_f64", 0, ("b32",)),
        116: ("ds_add_rtn_f64", 2, ("b32",)),
        252: ("ds_load_tr16_b128", 4, ("b32",)),
        253: ("ds_load_tr8_b64", 2, ("b32",)),
    },
}
# Opcodes of RDNA 4 that gfx1250 does not have, by encoding.
_WITHOUT = {"VOP3": (614, 615), "VOP3P": (19, 26, 36, 37, 38, 39), "SOPP": (9, 66, 67, 68)}
# The bits of the first word that name an encoding, and the lowest bit of the opcode with its width.
_ENCODINGS = (
    ("SOPP", 23, 0b101111111, 16, 7),
    ("VOP1", 25, 0b0111111, 9, 7),
    ("VOP3", 26, 0b110101, 16, 10),
    ("VOP3P", 24, 0b11001100, 16, 8),
    ("DS", 26, 0b110110, 18, 8),
    ("VBUFFER", 26, 0b110001, 14, 8),
    ("VFLAT", 24, 0b11101100, 14, 8),
    ("VGLOBAL", 24, 0b11101110, 14, 8),
    ("VOP2", 31, 0, 25, 6),
)
_MEMORY = ("VBUFFER", "VFLAT", "VGLOBAL")
_NOT_VOP2 = (0b0111110, 0b0111111)  # the highest bits of VOPC and VOP1
_PAIR, _LONG_PAIR = 0b110010, 0b11001111  # the highest bits of two instructions that are issued together
PARTS = (  # of such a pair, by number
    *("v_dual_fmac_f32", "v_dual_fmaak_f32", "v_dual_fmamk_f32", "v_dual_mul_f32", "v_dual_add_f32", "v_dual_sub_f32"),
    *("v_dual_subrev_f32", "v_dual_mul_dx9_zero_f32", "v_dual_mov_b32", "v_dual_cndmask_b32", "v_dual_max_num_f32"),
    *("v_dual_min_num_f32", "v_dual_dot2acc_f32_f16", "v_dual_dot2acc_f32_bf16", "", "", "v_dual_add_nc_u32"),
    *("v_dual_lshlrev_b32", "v_dual_bitop2_b32", "v_dual_fma_f32", "v_dual_sub_nc_u32", "v_dual_lshrrev_b32"),
    *("v_dual_ashrrev_i32", "v_dual_max_i32", "v_dual_min_i32", "", "", "", "", "", "", "", "v_dual_fma_f64"),
    *("v_dual_add_f64", "v_dual_mul_f64", "v_dual_max_num_f64", "v_dual_min_num_f64"),
)
# The fields of the longer form of a pair: the lowest bit and the mask.
LONG_PAIR = (
    *(
        ("srcx0", 0, 511),
        ("srcy0", 32, 511),
        ("negx", 41, 7),
        ("negy", 44, 7),
        ("vsrcx1", 48, 255),
        ("vsrcx2", 56, 255),
    ),
    *(("vdstx", 64, 255), ("vsrcy1", 72, 255), ("vsrcy2", 80, 255), ("vdsty", 88, 255)),
)
_SCALED = {"VGLOBAL": 48, "VFLAT": 48, "VSCRATCH": 48, "SMEM": 56}  # the bit that scales an offset by the bytes
_LITERAL, LONG_LITERAL = 255, 254
_SOURCES = ("ssrc0", "ssrc1", "src0")
# Which two bits of s_set_vgpr_msb an operand takes its upper bits from; all encodings of vectors but these are alike.
_OF_VECTORS = {"src0": 0, "vsrc0": 0, "src1": 1, "vsrc1": 1, "src2": 2, "vdst": 3}
_UPPER = {
    "DS": {"addr": 0, "data0": 1, "data1": 2, "vdst": 3},
    **{encoding: {"vaddr": 0, "vsrc": 1, "vdst": 3} for encoding in ("VGLOBAL", "VFLAT", "VSCRATCH")},
    "VBUFFER": {"vaddr": 0, "vdata": 3},
    "VOPD": {
        **dict.fromkeys(("srcx0", "srcy0"), 0),
        **dict.fromkeys(("vsrcx1", "vsrcy1"), 1),
        **dict.fromkeys(("vsrcx2", "vsrcy2"), 2),
        **dict.fromkeys(("vdstx", "vdsty"), 3),
    },
    **dict.fromkeys(("VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P"), _OF_VECTORS),
}
_WITH_SCALARS = ("src0", "src1", "src2", "srcx0", "srcy0")  # whose number is of a vector register from 256 on
_TO_SCALAR = re.compile("v_cmp|v_s_|v_readlane|v_readfirstlane")  # whose result is a scalar register
_MODE = 1  # a register of the hardware
_UPPER_OF_MODE, _ALL_UPPER = 12, 0xFF  # where s_setreg of a constant takes the upper bits from


class Found(NamedTuple):
    """An instruction that RDNA 4 lacks: its encoding, its name, its registers and bytes, and its literal."""

    encoding: str
    name: str
    result: int
    kinds: Sequence[str]
    size: int
    literal: int | None


def found(data: bytes) -> Found | None:
    """Return the instruction at the beginning of the bytes, or None where RDNA 4 has the same.

    Raises:
        UnknownInstructionError: it is of gfx1250, and not known.
    """
    word = int.from_bytes(data[:8], "little")
    first = word & 0xFFFFFFFF
    if first >> 24 == _LONG_PAIR:
        return Found("VOPD_LONG", _names(first >> 18 & 63, first >> 12 & 63), 1, (), 12, None)
    if first >> 26 == _PAIR:
        name = _names(first >> 22 & 15, first >> 17 & 31)
        has_literal = _LITERAL in (first & 511, word >> 32 & 511) or "aak" in name or "amk" in name
        literal = int.from_bytes(data[8:12], "little") if has_literal else None
        return Found("VOPD", name, 1, (), 12 if has_literal else 8, literal)
    for encoding, place, value, low, width in _ENCODINGS:
        if first >> place != value or (encoding == "VOP2" and first >> 25 in _NOT_VOP2):
            continue
        opcode = first >> low & (1 << width) - 1
        if opcode in OPCODES[encoding]:
            return _found(encoding, *OPCODES[encoding][opcode], word, data)
        if opcode in _WITHOUT.get(encoding, ()) or (encoding == "VOP3P" and opcode >> 7):  # the tables have seven bits
            raise UnknownInstructionError(f"the opcode {opcode} of {encoding}")
    return None


def _names(*numbers: int) -> str:
    """Return the names of both parts of a pair."""
    for number in numbers:
        if number >= len(PARTS) or not PARTS[number]:
            raise UnknownInstructionError(f"a pair with the opcode {number}")
    return " ".join(PARTS[number] for number in numbers)


def _found(encoding: str, name: str, result: int, kinds: Sequence[str], word: int, data: bytes) -> Found:
    if encoding in _MEMORY:
        return Found(encoding, name, result, kinds, 12, None)
    size = 8 if encoding in ("VOP3", "VOP3P", "DS") else 4
    sources = [word >> low & 511 for low in (32, 41, 50)][: len(kinds)] if size == 8 else [word & 511]
    if encoding == "DS":
        sources = []
    if name.endswith(("k_f64",)):
        return Found(encoding, name, result, kinds, 12, int.from_bytes(data[4:12], "little"))
    has_literal = encoding != "SOPP" and _LITERAL in sources
    literal = int.from_bytes(data[size : size + 4], "little") if has_literal else None
    return Found(encoding, name, result, kinds, size + 4 * has_literal, literal)


def with_own_fields(one: Instruction, data: bytes) -> Instruction:
    """Return an instruction with what gfx1250 adds to its encoding: a scaled offset, and a literal of 64 bits."""
    raw = int.from_bytes(data, "little")
    if one.base in _SCALED:
        fields = {**one.fields, "scale_offset": raw >> _SCALED[one.base] & 1}
        return replace(one, fields=fields)
    is_short = one.base in ("SOP1", "SOP2", "SOPC", "VOP1", "VOP2", "VOPC")
    if is_short and any(one.get(source) == LONG_LITERAL for source in _SOURCES):
        return replace(one, size=12, literal=int.from_bytes(data[4:12], "little"))
    return one


def with_upper_registers(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Return the instructions with the whole numbers of their vector registers.

    ``s_set_vgpr_msb`` sets their upper bits for all that follow. LLVM has none set where ways meet, so the order in
    memory says what is set.

    Raises:
        UnknownInstructionError: upper bits are set where ways meet, or are a register's.
    """
    upper, result, targets, entered = 0, [], set(), {}
    for one in instructions:
        entered[one.address] = upper
        if one.name == "s_set_vgpr_msb":
            upper = one.get("simm16") & 0xFF
        elif one.name.startswith(("s_setreg", "s_getreg")) and one.get("simm16") & 63 == _MODE:
            upper = _upper_behind(one, upper)
        elif one.base == "SOPP" and "branch" in one.name:
            targets.add(one.address + 4 + 4 * ((one.get("simm16") ^ 0x8000) - 0x8000))
            targets.add(one.address)
        elif one.name == "s_endpgm":
            upper = 0
        result.append(_with_upper(one, upper) if upper else one)
    for place in sorted(targets):
        if entered.get(place):
            raise UnknownInstructionError(
                f"upper bits of registers are set where ways meet (at {place:#x} of the kernel)"
            )
    return result


def _upper_behind(one: Instruction, upper: int) -> int:
    """Return the upper bits behind an access to MODE, which has them too: there those of the result come first.

    A constant sets them whatever its field of MODE is, as LLVM has it for the hardware. LLVM 22 did not know that: it
    has zeros there.

    Raises:
        UnknownInstructionError: it reads them, sets them to what is in a register, or does not say what they are.
    """
    word, bits = one.get("simm16"), (one.literal or 0) >> _UPPER_OF_MODE & _ALL_UPPER
    if "imm" in one.name and (bits or not upper):
        return bits >> 2 | (bits & 3) << 6
    first, end = word >> 6 & 31, (word >> 6 & 31) + (word >> 11) + 1
    is_upper = first < _UPPER_OF_MODE + 8 and end > _UPPER_OF_MODE
    if is_upper or (upper and "set" in one.name):
        raise UnknownInstructionError(f"{one.name} where upper bits of registers are in MODE (at {one.address:#x})")
    return upper


def _with_upper(one: Instruction, upper: int) -> Instruction:
    places = _UPPER.get(one.base, {})
    fields = dict(one.fields)
    for field in fields:
        place = _place(one.name, field, places)
        if place is None or not (bits := upper >> 2 * place & 3):
            continue
        if (field in _WITH_SCALARS and fields[field] < 256) or (field == "vdst" and _TO_SCALAR.match(one.name)):
            continue
        is_half = field == "vdsty" and one.encoding == "VOPD"  # which has no lowest bit there
        fields[field] += bits * (128 if is_half else 256)
    return replace(one, fields=fields)


def _place(name: str, field: str, places: Mapping[str, int]) -> int | None:
    """Return which of the four operands a field is; behind a literal the next one is the third."""
    if match := re.fullmatch(r"vsrc([xy]?)1", field):
        part = name.split()[match[1] == "y"] if match[1] else name
        if "fmamk" in part and field in places:
            return 2
    return places.get(field)
