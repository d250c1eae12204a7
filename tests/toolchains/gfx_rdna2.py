"""Assemble each opcode for gfx1030 and for gfx1100 by Triton's LLVM, decode both, and print where they differ: JSON."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Iterator
from typing import Any

from triton._C.libtriton import amd, llvm

from gpu_emulators.amd import decoding
from gpu_emulators.amd.code_object import read
from gpu_emulators.common.errors import EmulatorError

ENCODINGS = ("VOP1", "VOP1_SDST", "VOP2", "VOP2_LIT", "VOPC", "VOP3", "VOP3_SDST", "VOP3SD", "VOP3P", "SOP1", "SOP2",
             "SOPC", "SOPK", "SOPK_LIT", "SOPP", "SMEM", "DS", "FLAT", "GLOBAL", "MUBUF")  # fmt: skip
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
        elif encoding == "MUBUF":
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
    flags = ("dlc", "gds", "encoding")
    fields = sorted((name, value) for name, value in one.fields.items() if name not in flags)
    return one.size, one.encoding, one.name, fields, sorted(one.wide), one.literal, one.result, one.kinds


def compared(name: str, suffixes: tuple[str, ...], texts: Iterator[str]) -> str:
    """Return how the first line differs that LLVM assembles for both targets: ``same`` where not; "" without one."""
    for text in texts:
        for suffix in suffixes:
            newer = decoded("gfx1100", f"{name}{suffix} {text}")
            here = decoded("gfx1030", f"{older(name)}{suffix} {text}") if newer else None
            if newer and here:
                return "same" if newer == here else f"{text}: {here}, not {newer}"
    return ""


def main() -> None:
    llvm.init_targets()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # LLVM says there what it refuses
    decoding._decoder()
    module = importlib.import_module("tinygrad.runtime.autogen.amd.rdna3.ins")
    for encoding in ENCODINGS:
        kind = getattr(module, encoding)
        for opcode in sorted(dict(kind._fields)["op"].allowed, key=lambda one: one.value):
            name = decoding._SUFFIX.sub("", opcode.name.lower())
            suffixes = ("_e64", "") if encoding.startswith("VOP3") else ("",)
            if said := compared(name, suffixes, operands(kind, encoding, opcode)):
                print(json.dumps([encoding, name, said]), flush=True)


if __name__ == "__main__":
    main()
