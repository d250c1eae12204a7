"""Assemble each opcode for a target and for the one whose tables it is read with, and print where they differ: JSON.

gfx1030 is read as gfx1100, and gfx1250 as gfx1201. The assembler is the LLVM of Triton.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

from triton._C.libtriton import amd, llvm

from gpu_emulators.amd import decoding, gfx1250, translate_vector
from gpu_emulators.amd.code_object import read
from gpu_emulators.amd.records import SCALAR, VECTOR
from gpu_emulators.common.errors import EmulatorError

ENCODINGS = ("VOP1", "VOP1_SDST", "VOP2", "VOP2_LIT", "VOPC", "VOP3", "VOP3_SDST", "VOP3SD", "VOP3P", "SOP1", "SOP2",
             "SOPC", "SOPK", "SOPK_LIT", "SOPP", "SMEM", "DS", "FLAT", "GLOBAL", "MUBUF")  # fmt: skip
NEWER = (*ENCODINGS[:-3], "VFLAT", "VGLOBAL", "VSCRATCH", "VBUFFER")
SIZES = {"b32": "dword", "b64": "dwordx2", "b96": "dwordx3", "b128": "dwordx4", "b256": "dwordx8", "b512": "dwordx16"}
# How LLVM spells a name of RDNA 3 for RDNA 2, where it has another.
SPELLED = (
    (r"^((?:s|global|flat|buffer)_(?:load|store))_(b\d+)$", lambda m: f"{m[1]}_{SIZES.get(m[2], m[2])}"),
    (r"_(load|store)_d16_hi_([biu])(8|16)$", lambda m: f"_{m[1]}_{part(m[2], m[3])}_d16_hi"),
    (r"_(load|store)_d16_([biu])(8|16)$", lambda m: f"_{m[1]}_{part(m[2], m[3])}_d16"),
    (r"^((?:global|flat|buffer)_(?:load|store))_([biu])(8|16)$", lambda m: f"{m[1]}_{long_part(m[1], m[2], m[3])}"),
    (r"atomic_(swap|cmpswap|and|or|xor)_b(32|64)", lambda m: f"atomic_{m[1]}{long(m[2])}"),
    (r"atomic_(add|sub|inc|dec)_u(32|64)", lambda m: f"atomic_{m[1]}{long(m[2])}"),
    (r"atomic_(min|max)_([iu])(32|64)", lambda m: f"atomic_{'s' if m[2] == 'i' else 'u'}{m[1]}{long(m[3])}"),
    (r"atomic_(min|max|cmpswap)_f(32|64)", lambda m: f"atomic_f{m[1]}{long(m[2])}"),
    (r"_2addr_stride64_", lambda _: "2st64_"),
    (r"_2addr_", lambda _: "2_"),
    (r"^ds_load", lambda _: "ds_read"),
    (r"^ds_store(?!x)", lambda _: "ds_write"),
    (r"storexchg", lambda _: "wrxchg"),
    (r"cmpstore", lambda _: "cmpst"),
    (r"^([sv])_ctz_i32_b(32|64)", lambda m: f"{'v_ffbl_b32' if m[1] == 'v' else f's_ff1_i32_b{m[2]}'}"),
    (r"^([sv])_clz_i32_u(32|64)", lambda m: f"{'v_ffbh_u32' if m[1] == 'v' else f's_flbit_i32_b{m[2]}'}"),
    (r"^([sv])_cls_i32(_i64)?$", lambda m: "v_ffbh_i32" if m[1] == "v" else f"s_flbit_i32{m[2] or ''}"),
    (r"_not1_", lambda m: "n2_"),
    (r"_not0_", lambda m: "n1_"),
    (r"_(nearest|floor)_i32_f32", lambda m: f"_{'rpi' if m[1] == 'nearest' else 'flr'}_i32_f32"),
    (r"_cvt_pk_rtz_", lambda _: "_cvt_pkrtz_"),
    (r"_dx9_zero_", lambda _: "_legacy_"),
    (r"_t_([fiu]\d)", lambda m: f"_tru_{m[1]}" if m[1].startswith("f") else f"_t_{m[1]}"),
    (r"_pk_norm_([iu]16)", lambda m: f"_pknorm_{m[1]}"),
    (r"^s_set_inst_prefetch_distance", lambda _: "s_inst_prefetch"),
)  # fmt: skip


FORMS = {
    "mov": "v30, v4",
    "fmaak": "v30, v4, v6, 0x12345678",
    "fmamk": "v30, v4, 0x12345678, v6",
    "fma": "v30, v4, v6, v8",
    "bitop2": "v30, v4, v6 bitop3:0x14",
}
OF_GFX1250 = """
global_atomic_add_f64 v[20:21], v[4:5], v[6:7], off th:TH_ATOMIC_RETURN
flat_atomic_add_f64 v[20:21], v[4:5], v[6:7] th:TH_ATOMIC_RETURN
buffer_atomic_add_f64 v[20:21], v4, s[8:11], s3 offen th:TH_ATOMIC_RETURN
global_atomic_min_num_f64 v[20:21], v[4:5], v[6:7], off th:TH_ATOMIC_RETURN
flat_atomic_min_num_f64 v[20:21], v[4:5], v[6:7] th:TH_ATOMIC_RETURN
buffer_atomic_min_num_f64 v[20:21], v4, s[8:11], s3 offen th:TH_ATOMIC_RETURN
global_atomic_max_num_f64 v[20:21], v[4:5], v[6:7], off th:TH_ATOMIC_RETURN
flat_atomic_max_num_f64 v[20:21], v[4:5], v[6:7] th:TH_ATOMIC_RETURN
buffer_atomic_max_num_f64 v[20:21], v4, s[8:11], s3 offen th:TH_ATOMIC_RETURN
ds_add_f64 v4, v[6:7]
ds_add_rtn_f64 v[20:21], v4, v[6:7]
v_mov_b64 v[20:21], v[4:5]
v_mov_b64_e64 v[20:21], v[4:5]
v_mov_b64 v[20:21], 0x123456789abcdef0
v_mov_b64 v[20:21], 0x12345678
v_permlane16_swap_b32 v20, v4
v_cvt_f32_bf16 v20, v4
v_fmac_f64 v[20:21], v[4:5], v[6:7]
v_fmac_f64_e64 v[20:21], v[4:5], v[6:7]
v_fmamk_f64 v[20:21], v[4:5], 0x123456789abcdef0, v[6:7]
v_fmaak_f64 v[20:21], v[4:5], v[6:7], 0x123456789abcdef0
v_add_nc_u64 v[20:21], v[4:5], v[6:7]
v_add_nc_u64_e64 v[20:21], v[4:5], s[6:7]
v_sub_nc_u64 v[20:21], v[4:5], v[6:7]
v_mul_u64 v[20:21], v[4:5], v[6:7]
v_bitop3_b16 v20, v4, v6, v8 bitop3:0x14
v_bitop3_b32 v20, v4, v6, v8 bitop3:0x14
v_mad_u32 v20, v4, v6, v8
v_mad_u32 v20, v4, v6, 0x12345678
v_lshl_add_u64 v[20:21], v[4:5], v6, v[8:9]
v_mad_nc_u64_u32 v[20:21], v4, v6, v[8:9]
v_mad_nc_i64_i32 v[20:21], v4, v6, v[8:9]
v_min_u64 v[20:21], v[4:5], v[6:7]
v_max_u64 v[20:21], v[4:5], v[6:7]
v_min_i64 v[20:21], v[4:5], v[6:7]
v_max_i64 v[20:21], v[4:5], v[6:7]
v_cvt_pk_bf16_f32 v20, v4, v6
v_cvt_pk_f16_f32 v20, v4, v6
v_cvt_scalef32_pk8_fp8_bf16 v[20:21], v[4:7], v8
v_cvt_scalef32_pk8_bf8_bf16 v[20:21], v[4:7], v8
v_cvt_scalef32_pk8_fp8_f32 v[20:21], v[4:11], v12
v_cvt_scalef32_pk8_fp8_f16 v[20:21], v[4:7], v8
v_cvt_scalef32_pk8_bf8_f32 v[20:21], v[4:11], v12
v_cvt_scalef32_pk8_bf8_f16 v[20:21], v[4:7], v8
v_pk_fma_f32 v[20:21], v[4:5], v[6:7], v[8:9]
v_pk_mul_f32 v[20:21], v[4:5], v[6:7]
v_pk_add_f32 v[20:21], v[4:5], v[6:7]
v_pk_fma_bf16 v20, v4, v6, v8
v_pk_add_bf16 v20, v4, v6
v_pk_mul_bf16 v20, v4, v6
v_pk_minimum3_f16 v20, v4, v6, v8
v_pk_maximum3_f16 v20, v4, v6, v8
v_pk_min3_num_f16 v20, v4, v6, v8
v_pk_max3_num_f16 v20, v4, v6, v8
v_fma_mix_f32_bf16 v20, v4, v6, v8
v_fma_mixlo_bf16 v20, v4, v6, v8
v_fma_mixhi_bf16 v20, v4, v6, v8
v_wmma_f32_16x16x4_f32 v[20:27], v[4:5], v[6:7], v[32:39]
v_wmma_f32_16x16x32_f16 v[20:27], v[4:11], v[40:47], v[32:39]
v_wmma_f16_16x16x32_f16 v[20:23], v[4:11], v[40:47], v[32:35]
v_wmma_f32_16x16x32_bf16 v[20:27], v[4:11], v[40:47], v[32:39]
v_wmma_bf16_16x16x32_bf16 v[20:23], v[4:11], v[40:47], v[32:35]
v_wmma_f32_16x16x64_fp8_fp8 v[20:27], v[4:11], v[40:47], v[32:39]
v_wmma_f32_16x16x64_fp8_bf8 v[20:27], v[4:11], v[40:47], v[32:39]
v_wmma_f32_16x16x64_bf8_fp8 v[20:27], v[4:11], v[40:47], v[32:39]
v_wmma_f32_16x16x64_bf8_bf8 v[20:27], v[4:11], v[40:47], v[32:39]
v_wmma_i32_16x16x64_iu8 v[20:27], v[4:11], v[40:47], v[32:39]
v_wmma_f32_16x16x128_fp8_fp8 v[20:27], v[4:19], v[40:55], v[32:39]
v_wmma_f32_16x16x128_fp8_bf8 v[20:27], v[4:19], v[40:55], v[32:39]
v_wmma_f32_16x16x128_bf8_fp8 v[20:27], v[4:19], v[40:55], v[32:39]
v_wmma_f32_16x16x128_bf8_bf8 v[20:27], v[4:19], v[40:55], v[32:39]
s_set_vgpr_msb 0x41
s_wait_xcnt 0x0
ds_load_tr16_b128 v[20:23], v4
ds_load_tr8_b64 v[20:21], v4
"""
# With s_set_vgpr_msb in front.
WITH_UPPER = """
v_add_f32_e32 v1, v2, v3
v_add_f32_e32 v1, s2, v3
v_fma_f32 v1, s2, v3, v4
v_cmp_lt_f32_e64 s4, v1, v2
v_readlane_b32 s4, v1, s2
v_wmma_f32_16x16x32_f16 v[20:27], v[4:11], v[40:47], v[32:39]
ds_load_b32 v1, v2
ds_store_b32 v2, v3
global_load_b32 v1, v[2:3], off
global_store_b32 v[2:3], v4, off
buffer_load_b32 v1, v2, s[4:7], null offen
v_dual_mov_b32 v30, v4 :: v_dual_mov_b32 v33, v82
v_dual_mov_b32 v30, v4 :: v_dual_mov_b32 v34, v82
v_dual_fma_f32 v30, v4, v6, v8 :: v_dual_mov_b32 v34, v82
v_dual_fmamk_f32 v30, v4, 0x12345678, v6 :: v_dual_mov_b32 v33, v82
"""


def long(bits: str) -> str:
    return "_x2" if bits == "64" else ""


def part(kind: str, bits: str) -> str:
    return {"b8": "byte", "b16": "short", "u8": "ubyte", "i8": "sbyte"}[kind + bits]


def long_part(what: str, kind: str, bits: str) -> str:
    stem = {"8": "byte", "16": "short"}[bits]
    return stem if what.endswith("store") else {"u": "u", "i": "s", "b": ""}[kind] + stem


def older(name: str) -> str:
    for pattern, spelled in SPELLED:
        name = re.sub(pattern, spelled, name)
    return name


def vector(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


def scalar(first: int, count: int) -> str:
    return f"s{first}" if count == 1 else f"s[{first}:{first + count - 1}]"


def operands(kind: Any, encoding: str, opcode: Any) -> Iterator[str]:
    """Yield what may stand behind an opcode, by the numbers of registers that AMD's tables say."""
    one = kind.__new__(kind)
    one._raw = opcode.value << dict(kind._fields)["op"].lo
    regs = one.op_regs
    n = lambda name: regs.get(name, 1)  # noqa: E731
    if encoding.startswith("VOP"):
        sources = [vector(4 + 4 * k, n(f"src{k}" if k != 1 or "src1" in regs else "vsrc1")) for k in range(3)]
        to = [vector(20, n("vdst")), scalar(20, n("vdst")), "vcc_lo", "s20", ""]
        for count in (1, 2, 3):
            for result in to:
                for carry in ("", "s8", "vcc_lo", "null"):
                    for behind in ("", "vcc_lo", "s10", "null"):
                        yield ", ".join(filter(None, [result, carry, *sources[:count], behind]))
        yield f"{to[0]}, {sources[0]}, 0x12345678, {sources[1]}"
        yield f"{to[0]}, {sources[0]}, {sources[1]}, 0x12345678"
        yield f"s20, {sources[0]}, s4"
        yield "v20, s4, s5"
        return
    if encoding.startswith("SOP"):
        first, second = scalar(4, n("ssrc0")), scalar(8, n("ssrc1"))
        yield from (f"{scalar(20, n('sdst'))}, {first}, {second}", f"{scalar(20, n('sdst'))}, {first}")
        yield from (f"{first}, {second}", "s20, 0x1234", first, scalar(20, n("sdst")), "3", "", "null, 0x3")
        yield f"s20, {first}, 0x12345678"
        yield from ("s20, 0x12345678, s4", "s20, s4, 0x12345678", "hwreg(1, 0, 3), 0x5", "s20, hwreg(1, 0, 3)")
        yield "hwreg(1, 0, 3), s20"
        return
    data = [vector(24, count) for count in (1, 2, 3, 4)]
    for value in data if encoding != "SMEM" else [scalar(24, count) for count in (1, 2, 4, 8, 16)]:
        if encoding == "SMEM":
            yield from (f"{value}, s[8:9], 0x44", f"{value}, s[8:9], null")
        elif encoding == "DS":
            yield from (f"{value}, v4 offset:20", f"v4, {value} offset:20", f"{value}, v4, {value} offset:20")
            yield from (f"v4, {value}, {value}", f"{value}, v4", f"v4, {value}, {value} offset0:1 offset1:3")
            yield from (f"{value}, v4 offset0:1 offset1:3", f"v4, {data[0]}, {data[0]} offset0:1 offset1:3")
            yield from (f"{data[0]}, v4, v30, v31", f"{data[1]}, v4, v[30:31], v[32:33]", f"v4, {data[1]}, v[30:31]")
            yield "v4, v30, v31"
        elif encoding in ("MUBUF", "VBUFFER"):
            yield f"{value}, v4, s[8:11], s3 offen offset:20"
            yield f"{value}, v4, s[8:11], null idxen offset:4095 glc"
        else:
            for address in ("v[4:5]", "v4"):
                for base in ("", ", off", ", s[6:7]"):
                    for offset in ("", " offset:20", " offset:-20"):
                        yield f"{value}, {address}{base}{offset}"
                        yield f"{address}, {value}{base}{offset}"
                        yield f"v40, {address}, {value}{base}{offset} glc"
                        yield f"v[40:41], {address}, {value}{base}{offset} glc"
    yield ""


def decoded(target: str, text: str) -> tuple[Any, ...] | None:
    """Return what the decoder makes of one line of assembly; None where LLVM refuses the line."""
    if not (code := amd.assemble_amdgcn(f"k:\n{text}\n", target, "")):
        return None
    machine = bytes(read(code).sections[".text"])
    try:
        one = decoding.decode(machine, target)[0]
    except EmulatorError as error:
        return (str(error),)
    flags = ("dlc", "gds", "encoding", "scale_offset")
    fields = sorted((name, value) for name, value in one.fields.items() if name not in flags)
    return one.size, one.encoding, one.name, fields, sorted(one.wide), one.literal, one.result, one.kinds


def compared(target: str, name: str, suffixes: tuple[str, ...], texts: Iterator[str]) -> str:
    """Return how the first line differs that LLVM assembles for both targets: ``same`` where not; "" without one."""
    table, spelled = ("gfx1100", older) if target == "gfx1030" else ("gfx1201", str)
    for text in texts:
        for suffix in suffixes:
            newer = decoded(table, f"{name}{suffix} {text}")
            here = decoded(target, f"{spelled(name)}{suffix} {text}") if newer else None
            if newer and here:
                return "same" if newer == here else f"{text}: {here}, not {newer}"
    return ""


def own() -> Iterator[tuple[str, str, str]]:
    """Yield how each opcode is read that only gfx1250 has, and each part of two at once."""
    named = set()
    for line in OF_GFX1250.strip().splitlines():
        name = re.sub(r"_e(32|64)$", "", line.split()[0])
        named.add(name)
        yield "own", line, read_as(name, line)
    for line in WITH_UPPER.strip().splitlines():
        names = " ".join(re.sub(r"_e(32|64)$", "", part.split()[0]) for part in line.split(" :: "))
        yield "upper", line, read_as(names, line, 256)
    lacking = {one[0] for opcodes in gfx1250.OPCODES.values() for one in opcodes.values()} - named
    yield from (("own", name, "no line") for name in sorted(lacking))
    for name in filter(None, gfx1250.PARTS):
        forms = [FORMS.get(name.removeprefix("v_dual_").split("_")[0], "v30, v4, v6")]
        forms += ["v30, v4, v6, s8"] if "cndmask" in name else []
        if name.endswith("64"):
            forms = [re.sub(r"v(\d+)", lambda m: f"v[{m[1]}:{int(m[1]) + 1}]", FORMS.get(name[7:10], forms[0]))]
        for form, other in itertools.product(forms, ("v_dual_mov_b32 v33, v82", "v_dual_mov_b32 v34, v82")):
            for both in (f"{name} {form} :: {other}", f"{other} :: {name} {form}"):
                names = " ".join(part.split()[0] for part in both.split(" :: "))
                if said := read_as(names, both):
                    yield "two", both, said


def numbers(text: str) -> list[int]:
    """Return the numbers of the registers in a line, as operands have them: those of vectors from 256 on."""
    found = re.findall(r"\b([vs])\[?(\d+)", text.partition(" ")[2])
    return [int(number) + (256 if kind == "v" else 0) for kind, number in found]


def read_as(name: str, text: str, upper: int = 0) -> str:
    """Return ``same`` where a line is read with its name, its bytes and its registers; "" where LLVM refuses it.

    With ``upper`` the vector registers are so many further, as ``s_set_vgpr_msb`` says.
    """
    before = f"s_set_vgpr_msb {upper // 256 * 0x55}\n" if upper else ""
    if not (code := amd.assemble_amdgcn(f"k:\n{before}{text}\n", "gfx1250", "")):
        return "refused" if "::" not in text else ""
    machine = bytes(read(code).sections[".text"])
    one = decoding.decode(machine, "gfx1250")[-1]
    if "::" in text:
        got = [number for half in (translate_vector.dual_half(one, side) for side in "xy")
               for number in [half.destination + 256, *registers_of(half)]]  # fmt: skip
    else:
        is_scalar = name.startswith(("v_cmp", "v_readlane"))
        kinds = dict.fromkeys(("vsrc1", "addr", "vaddr", "data0", "vsrc", "vdata"), 256) | {
            "vdst": 256 * (not is_scalar)
        }
        fields = ("vdata", "vdst", "addr", "vaddr", "data0", "vsrc", "src0", "src1", "vsrc1", "src2")
        stores = "store" in name or name == "ds_add_f64"
        got = [one.get(field) + kinds.get(field, 0) for field in fields if field in one.fields and not (
            stores and field == "vdst")][: len(numbers(text))]  # fmt: skip
    right = [number + upper * (number >= 256) for number in numbers(text) if number >= 256 or "buffer" not in name]
    is_same = (one.name, one.address + one.size, got) == (name, len(machine), right)
    return "same" if is_same else f"{one.name}, {one.size} of {len(machine)} bytes, {got} not {right}"


def registers_of(half: Any) -> Iterator[int]:
    """Yield the registers of a part of two at once; register 0 (256) and VCC are where a line names none."""
    for one in half.sources:
        if (one.kind, one.number) not in ((VECTOR, 0), (VECTOR, 256), (SCALAR, 106)) and one.kind in (VECTOR, SCALAR):
            yield one.number + (256 if one.kind == VECTOR else 0)


def main() -> None:
    llvm.init_targets()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # LLVM says there what it refuses
    decoding._decoder()
    target = sys.argv[1]
    family = decoding.family_of(target)
    module = importlib.import_module(f"tinygrad.runtime.autogen.amd.{family}.ins")
    for encoding in ENCODINGS if family == "rdna3" else NEWER:
        kind = getattr(module, encoding)
        for opcode in sorted(dict(kind._fields)["op"].allowed, key=lambda one: one.value):
            name = decoding._SUFFIX.sub("", opcode.name.lower())
            suffixes = ("_e64", "") if encoding.startswith("VOP3") else ("",)
            if said := compared(target, name, suffixes, operands(kind, encoding, opcode)):
                print(json.dumps([encoding, name, said]), flush=True)
    for said in own() if target == "gfx1250" else ():
        print(json.dumps(said))


if __name__ == "__main__":
    main()
