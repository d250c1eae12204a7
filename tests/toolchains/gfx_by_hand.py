"""Run kernels of a few instructions that no compiler makes on an emulated gfx1100, and print what is found: JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from gfx_execute import RESULT, encoded, executed

from gpu_emulators.amd import Memory, Program, decoding
from gpu_emulators.amd.code_object import Argument, CodeObject, Kernel
from gpu_emulators.common.errors import EmulatorError

decoding._decoder()
from tinygrad.renderer.amd.dsl import EXEC, EXEC_LO, M0, NULL, VCC, VCC_LO, s, src, v  # noqa: E402  behind the check of its version
from tinygrad.runtime.autogen.amd.cdna import ins as older  # noqa: E402
from tinygrad.runtime.autogen.amd.rdna3 import ins as op  # noqa: E402
from tinygrad.runtime.autogen.amd.rdna4 import ins as newer  # noqa: E402

OUT, X, NEXT = s[4:5], s[6:7], s[20]
BEGIN = (op.s_load_b64(OUT, s[0:1], 0, soffset=NULL), op.s_load_b64(X, s[0:1], 8, soffset=NULL), op.s_waitcnt(0))
SHARED, PRIVATE, LANES_HIGH = src[235:236], src[237:238], src[231]  # where spaces of memory begin
FEW = (op.v_cmp_gt_u32_e32(8, v[0]), op.s_and_saveexec_b32(NEXT, VCC_LO))  # lanes 0 to 7
ALL = (op.s_or_b32(EXEC_LO, EXEC_LO, NEXT),)


def launched(
    code: Sequence[Any],
    threads: int | Sequence[int],
    *arrays: Any,
    lds: int = 0,
    shared: int = 0,
    function: Sequence[Any] = (),
    resources: int = 2 << 1 | 1 << 7,
    limit: int = 10_000,
    begin: Sequence[Any] = BEGIN,
    target: str = "gfx1100",
    scratch: int = 0,
    hidden: str = "hidden_none",
    grid: Sequence[int] = (1,),
    properties: int = 8,
) -> list[str]:
    """Run a kernel whose arguments are two arrays and a hidden one, and return its findings, or its error."""
    is_older = target.startswith("gfx9")
    end, wave = (older if is_older else op).s_endpgm(), (not is_older) << 10  # of 32 lanes, or of 64
    data = b"".join(one.to_bytes() for one in (*begin, *code, end))
    arguments = [Argument(name, "global_buffer", 8 * place, 8) for place, name in enumerate(("out", "x"))]
    kernel = Kernel(
        "k",
        data,
        0,
        lds,
        scratch,
        24,
        (0xC0 << 12, resources, 0),
        properties | wave,
        0,
        (*arguments, Argument("", hidden, 16, 8)),
    )
    called = b"".join(one.to_bytes() for one in function)
    given = [Memory.of(one.name, array) for one, array in zip(arguments, arrays, strict=True)]
    try:
        return [
            str(one)
            for one in Program(CodeObject({"k": kernel}, data + called, {}, {len(data): called}), target)
            .launch(grid, threads, given, shared=shared, limit=limit)
            .findings
        ]
    except EmulatorError as error:
        return [str(error)]


def store(value: Any, place: Any) -> Any:
    return op.global_store_b32(addr=place, data=value, saddr=OUT)


def arrays(size: int = 64) -> tuple[Any, Any]:
    return np.full(size, -1, np.int32), np.arange(size, dtype=np.int32)


def partial() -> dict[str, Any]:
    """Store the number of each of 40 threads: the second wave has 8 lanes."""
    out, x = arrays(40)
    found = launched([op.v_lshlrev_b32_e32(v[1], 2, v[0]), store(v[0], v[1])], 40, out, x)
    return {"found": found, "same": (out == x).all()}


def carries() -> dict[str, Any]:
    """Add the number of a lane to an address of 64 bits, with its carry and without it."""
    result = {}
    for name, high in (
        ("carry", op.v_add_co_ci_u32_e32(v[3], v[3], v[4])),
        ("none", op.v_add_nc_u32_e32(v[3], v[3], v[4])),
    ):
        out, x = arrays(4096)
        address = [
            op.v_mov_b32_e32(v[2], s[4]), op.v_mov_b32_e32(v[3], s[5]), op.v_mov_b32_e32(v[4], 0),
            op.v_lshlrev_b32_e32(v[1], 9, v[0]), op.v_add_co_u32(v[2], VCC_LO, v[2], v[1]), high,
        ]  # fmt: skip
        result[name] = launched([*address, op.global_store_b32(addr=v[2:3], data=v[0], saddr=NULL)], 32, out, x)
        result[f"{name} same"] = (out[::128][:32] == np.arange(32)).all()
    return result


def places() -> dict[str, Any]:
    """Store from all lanes to one place: their numbers, or the same number."""
    zero = op.v_mov_b32_e32(v[1], 0)
    return {
        name: launched([zero, op.v_mov_b32_e32(v[2], 7), store(value, v[1])], 32, *arrays())
        for name, value in (("numbers", v[0]), ("same", v[2]))
    }


def barriers() -> dict[str, Any]:
    """Pass a barrier with eight lanes; the others go on behind it, or have ended."""
    address = op.v_lshlrev_b32_e32(v[1], 2, v[0])
    return {
        "go on": launched([address, *FEW, op.s_barrier(), *ALL, store(v[0], v[1])], 32, *arrays()),
        "all": launched([address, *FEW, *ALL, op.s_barrier(), store(v[0], v[1])], 32, *arrays()),
        "ended": launched([address, *FEW, op.s_barrier(), store(v[0], v[1])], 32, *arrays()),
        "part": launched([address, op.s_barrier(), store(v[0], v[1])], 8, *arrays()),
    }


def overwritten() -> dict[str, Any]:
    """Write the data of a store of 16 bytes right behind it: by a vector instruction, and by the LDS, which is late."""
    begin = [older.s_load_dwordx2(place, s[0:1], offset=at, imm=1) for place, at in ((OUT, 0), (X, 8))]
    code = [older.s_waitcnt(0), older.v_lshlrev_b32_e32(v[1], 4, v[0])]
    code += [older.v_mov_b32_e32(v[n], 0) for n in (4, 5, 6, 7)]
    code += [older.ds_write_b32(addr=v[1], data0=v[0]), older.s_waitcnt(0)]
    code += [older.global_store_dwordx4(addr=v[1], data=v[4:7], saddr=OUT)]
    late = {
        "vector": older.v_mov_b32_e32(v[5], 1),
        "permuted": older.ds_bpermute_b32(vdst=v[5], addr=v[1], data0=v[0]),
        "swizzled": older.ds_swizzle_b32(vdst=v[5], addr=v[0]),
        "loaded": older.ds_read_b32(vdst=v[5], addr=v[1]),
    }
    return {
        name: launched([*code, one], 64, *arrays(256), lds=1024, begin=begin, target="gfx942")
        for name, one in late.items()
    }


def loops() -> dict[str, Any]:
    """Repeat two instructions for ever, with eight lanes."""
    return {"found": launched([*FEW, op.v_mov_b32_e32(v[1], 0), op.s_branch(0xFFFE)], 32, *arrays())}


def wraps() -> dict[str, Any]:
    """Use LDS at an address below zero whose offset leads back into it, and at one that stays outside."""
    result = {}
    for name, offset in (("inside", 256), ("outside", 64)):
        out, x = arrays(32)
        low = {"addr": v[2], "offset0": offset & 255, "offset1": offset >> 8}
        code = [
            op.v_lshlrev_b32_e32(v[1], 2, v[0]),
            *[op.v_add_nc_u32_e32(v[2], -64, register) for register in (v[1], v[2])],
            *[op.ds_store_b32(data0=v[0], **low), op.s_waitcnt(0), op.ds_load_b32(vdst=v[3], **low), op.s_waitcnt(0)],
            store(v[3], v[1]),
        ]
        result[name] = launched(code, 32, out, x, lds=256)
        result[f"{name} same"] = (out == x).all()
    return result


def atomics() -> dict[str, Any]:
    """Add or exchange in the LDS from two waves, between barriers, and read what they made; or store beside them."""
    four = [op.v_and_b32_e32(v[1], 12, v[2]), op.v_mov_b32_e32(v[3], 1)]
    begin = [
        op.v_lshlrev_b32_e32(v[2], 2, v[0]),
        op.v_mov_b32_e32(v[4], 0),
        op.ds_store_b32(addr=v[2], data0=v[4]),
        op.s_waitcnt(0),
        op.s_barrier(),
        *four,
    ]
    add, other = op.ds_add_u32(addr=v[1], data0=v[3]), op.ds_store_b32(addr=v[1], data0=v[3])
    end = [op.s_waitcnt(0), op.s_barrier(), op.ds_load_b32(vdst=v[5], addr=v[1]), op.s_waitcnt(0), store(v[5], v[2])]
    result = {}
    old = [op.ds_load_b32(vdst=v[5], addr=v[1]), op.s_waitcnt(0)]
    exchange = [*old, op.ds_cmpstore_b32(addr=v[1], data0=v[3], data1=v[5])]
    for name, code in (
        ("added", [add, add]),
        ("stored", [add, other]),
        ("read", [add, *old]),
        ("exchanged", exchange),
        ("exchanged and added", [*exchange, add]),
    ):
        out, x = arrays(64)
        result[name] = launched([*begin, *code, *end], 64, out, x, lds=256)
        result[f"{name} all"] = out.tolist()
    out, x = arrays(64)
    back = [op.ds_inc_rtn_u32(vdst=v[5], addr=v[4], data0=v[6]), op.s_waitcnt(0), store(v[5], v[2])]
    result["counted"] = launched([*begin, op.v_mov_b32_e32(v[6], 40), *back], 64, out, x, lds=256)
    result["counted all"] = sorted(out.tolist())
    return result


def combined() -> dict[str, Any]:
    """Combine what memory and the LDS hold with a number of each lane, of either sign, by every atomic on integers."""
    random = np.random.default_rng(3)
    unsigned = {"min": np.minimum, "max": np.maximum, "add": np.add, "sub": np.subtract}
    bits = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    operations = {
        **{f"{name}_u32": (np.uint32, how) for name, how in unsigned.items()},
        **{f"{name}_i32": (np.int32, how) for name, how in unsigned.items() if name in ("min", "max")},
        **{f"{name}_b32": (np.uint32, how) for name, how in bits.items()},
        "swap_b32": (np.uint32, lambda _, new: new),
        "inc_u32": (np.uint32, lambda old, new: np.where(old >= new, 0, old + 1)),
        "dec_u32": (np.uint32, lambda old, new: np.where((old == 0) | (old > new), new, old - 1)),
    }
    result = {}
    load = [op.global_load_b32(vdst=v[2], addr=v[1], saddr=X), op.s_waitcnt(0)]
    for name, (kind, how) in operations.items():
        old, new = random.integers(0, 2**32, (2, 32), np.uint32)
        old[:8], new[:4] = [0, 1, 5, 2**32 - 1] * 2, [0, 5, 1, 2**31]
        right = how(old.view(kind), new.view(kind)).astype(kind)
        lds = name.replace("swap", "storexchg_rtn")
        keep = [
            op.global_load_b32(vdst=v[3], addr=v[1], saddr=OUT),
            op.s_waitcnt(0),
            op.ds_store_b32(addr=v[1], data0=v[3]),
        ]
        change = getattr(op, f"ds_{lds}")(addr=v[1], data0=v[2], **({"vdst": v[5]} if "rtn" in lds else {}))
        back = [op.s_waitcnt(0), op.ds_load_b32(vdst=v[4], addr=v[1]), op.s_waitcnt(0), store(v[4], v[1])]
        for place, code in (
            ("memory", [getattr(op, f"global_atomic_{name}")(addr=v[1], data=v[2], saddr=OUT)]),
            ("LDS", [*keep, change, *back]),
        ):
            out = old.copy()
            found = launched([op.v_lshlrev_b32_e32(v[1], 2, v[0]), *load, *code], 32, out, new.copy(), lds=128)
            result[f"{name} {place}"] = found or bool((out.view(kind) == right).all())
    return result


def sizes() -> dict[str, tuple[int, bool, int]]:
    """Return the parts of memory by their names: the bytes, whether there is a sign, the half (-1 is neither)."""
    short = {"u8": (1, False), "i8": (1, True), "u16": (2, False), "i16": (2, True)}
    whole = {f"b{32 * count}": (4 * count, False, -1) for count in (1, 2, 3, 4)}
    halves = {f"{name}{high}": (*short[name], half) for name in short for half, high in enumerate(("_d16", "_d16_hi"))}
    return {**{name: (*one, -1) for name, one in short.items()}, **whole, **halves}


def of_memory(name: str) -> str:
    """Return the name of a part outside of the LDS: there d16 comes first, and 16 bits have no sign."""
    part, d16, high = name.partition("_d16")
    return f"d16{high}_{part.replace('u16', 'b16').replace('i16', '')}" if d16 else part


def loaded() -> dict[str, Any]:
    """Load each part of memory and of the LDS at an offset into registers that hold something else."""
    result, offset, marks = {}, 20, np.full(128, 0x5A5A5A5A, np.uint32)
    x = np.random.default_rng(5).integers(0, 2**32, 192, np.uint32)
    to, place = v[4:7], op.v_lshlrev_b32_e32(v[1], 4, v[0])
    fill = [op.v_mov_b32_e32(v[4 + k], 0x5A5A5A5A) for k in range(4)]
    copy = [op.global_load_b128(vdst=v[8:11], addr=v[1], saddr=X), op.s_waitcnt(0)]
    copy += [op.ds_store_b128(addr=v[1], data0=v[8:11]), op.s_waitcnt(0)]
    end = [op.s_waitcnt(0), op.global_store_b128(addr=v[1], data=to, saddr=OUT)]
    for name, (size, signed, half) in sizes().items():
        registers = v[4 : 4 + max(1, size // 4) - 1] if size > 4 else v[4]
        right = marks.reshape(32, 4).copy()
        for lane in range(32):
            held = x.tobytes()[16 * lane + offset :][:size]
            value = int.from_bytes(held, "little", signed=signed) & (
                0xFFFF if half >= 0 else (1 << 8 * max(4, size)) - 1
            )
            if half >= 0:
                value = int(right[lane, 0]) & (0xFFFF0000 >> 16 * half) | value << 16 * half
            right[lane, : max(1, size // 4)] = np.frombuffer(value.to_bytes(max(4, size), "little"), np.uint32)
        for space, named in (("memory", f"global_load_{of_memory(name)}"), ("LDS", f"ds_load_{name}")):
            load = getattr(op, named, None)
            if load is None:
                continue
            where = {"saddr": X, "offset": offset} if space == "memory" else {"offset0": offset}
            out, lanes = np.zeros(128, np.uint32), slice(0, 30)  # the last lanes of the LDS read what nobody wrote
            code = [place, *fill, *(copy if space == "LDS" else []), load(vdst=registers, addr=v[1], **where), *end]
            found = launched(code, 32, out, x, lds=640)
            found = [one for one in found if space == "memory" or "nothing was written" not in one]
            result[named] = found or bool((out.reshape(32, 4)[lanes] == right[lanes]).all())
    return result


def kept() -> dict[str, Any]:
    """Store each part of registers to memory and to the LDS at an offset; all other bytes stay."""
    result, offset = {}, 4
    x = np.random.default_rng(6).integers(0, 2**32, 128, np.uint32)
    begin = [op.v_lshlrev_b32_e32(v[1], 4, v[0]), op.global_load_b128(vdst=v[4:7], addr=v[1], saddr=X)]
    begin += [op.v_mov_b32_e32(v[8 + k], 0) for k in range(4)] + [op.s_waitcnt(0)]
    back = [op.s_waitcnt(0), op.ds_load_b128(vdst=v[8:11], addr=v[1]), op.s_waitcnt(0)]
    back += [op.global_store_b128(addr=v[1], data=v[8:11], saddr=OUT)]
    for name, (size, half) in {
        **{f"b{8 * size}": (size, 0) for size in (1, 2, 4, 8, 12)}, "b8_d16_hi": (1, 1), "b16_d16_hi": (2, 1),
    }.items():  # fmt: skip
        registers = v[4 : 4 + size // 4 - 1] if size > 4 else v[4]
        right = np.zeros((32, 16), np.uint8)
        right[:, offset : offset + size] = x.view(np.uint8).reshape(32, 16)[:, 2 * half : 2 * half + size]
        store_it = getattr(op, f"global_store_{of_memory(name)}")
        for space, code in (
            ("memory", [store_it(addr=v[1], data=registers, saddr=OUT, offset=offset)]),
            ("LDS", [op.ds_store_b128(addr=v[1], data0=v[8:11]),
                     getattr(op, f"ds_store_{name}")(addr=v[1], data0=registers, offset0=offset), *back]),
        ):  # fmt: skip
            out = np.zeros(128, np.uint32)
            found = launched([*begin, *code], 32, out, x, lds=512)
            result[f"{name} {space}"] = found or bool((out.view(np.uint8).reshape(32, 16) == right).all())
    return result


def pointers() -> dict[str, Any]:
    """Read at an address that an array holds."""
    held = np.arange(8, dtype=np.int32)
    out, x = np.zeros(8, np.int32), np.array([held.ctypes.data], np.uint64)
    code = [op.s_load_b64(s[8:9], X, 0, soffset=NULL), op.s_waitcnt(0), op.s_load_b32(s[10], s[8:9], 0, soffset=NULL)]
    return {"found": launched([*code, op.s_waitcnt(0)], 32, out, x)}


def quotients() -> dict[str, Any]:
    """Scale the numerators of quotients: hardware says so of a zero, and where the quotient may be subnormal."""
    pairs = np.array([(1, 0), (0, 1), (0, 0), (2.0**-126, 1), (1, 2.0**127), (6, 3), (1, 2.0**-120)], np.float32)
    x, out = np.resize(pairs, (32, 2)).astype(np.float32), np.full((32, 2), -1, np.int32)
    code = [
        *(op.v_lshlrev_b32_e32(v[1], 3, v[0]), op.global_load_b64(vdst=v[2:3], addr=v[1], saddr=X), op.s_waitcnt(0)),
        *(op.v_div_scale_f32(v[4], VCC_LO, v[2], v[3], v[2]), op.v_cndmask_b32_e64(v[5], 0, 1, VCC_LO)),
        op.global_store_b64(addr=v[1], data=v[4:5], saddr=OUT),
    ]
    found = launched(code, 32, out, x)
    return {
        "found": found,
        "flags": out[:7, 1].tolist(),
        "numbers": out[:7, :1].copy().view(np.float32).ravel().tolist(),
    }


def parts() -> dict[str, Any]:
    """Load one and two bytes into scalars, with a sign and without one, which RDNA 4 does, and store what they are."""
    x, out = np.array([0x8081FF7E, 0x01020304], np.uint32).view(np.int32), np.zeros(32, np.int32)
    names = [f"s_load_{name}" for name in ("u8", "i8", "u16", "i16")]
    begin = [newer.s_load_b64(place, s[0:1], ioffset=at, soffset=NULL) for place, at in ((OUT, 0), (X, 8))]
    code = [newer.v_mov_b32_e32(v[1], 0)]
    for place, (name, at) in enumerate((name, at) for name in names for at in (0, 2)):
        load = getattr(newer, name)(s[10], X, ioffset=at, soffset=NULL)
        code += [load, newer.s_wait_kmcnt(simm16=0), newer.v_mov_b32_e32(v[2], s[10])]
        code += [newer.global_store_b32(vaddr=v[1:2], vsrc=v[2], saddr=OUT, ioffset=4 * place)]
    wait = newer.s_wait_kmcnt(simm16=0)
    return {"found": launched(code, 32, out, x, begin=[*begin, wait], target="gfx1201"), "numbers": out[:8].tolist()}


def waits() -> dict[str, Any]:
    """Wait by the instruction of each counter, and for all of them; or for the other counter."""
    result = {}
    for name, wait in {
        "memory": op.s_waitcnt_vmcnt(sdst=NULL, simm16=0),
        "LDS": op.s_waitcnt_lgkmcnt(sdst=NULL, simm16=0),
        "all": op.s_wait_idle(),
    }.items():
        load = [op.v_lshlrev_b32_e32(v[1], 2, v[0]), op.global_load_b32(vdst=v[2], addr=v[1], saddr=X)]
        result[name] = [one.split(": ")[1] for one in launched([*load, wait, store(v[2], v[1])], 32, *arrays())]
    return result


def products() -> dict[str, Any]:
    """Multiply matrices of which registers or lanes are not written, on gfx942: those that are read, and others."""
    begin = [older.s_load_dwordx2(place, s[0:1], offset=at, imm=1) for place, at in ((OUT, 0), (X, 8))]
    begin += [older.s_waitcnt(0), older.v_lshlrev_b32_e32(v[1], 2, v[0])]
    few = [older.v_cmp_gt_u32_e32(32, v[0]), older.s_and_saveexec_b64(s[20:21], VCC)]
    all_lanes = [older.s_mov_b64(EXEC, s[20:21])]
    result = {}
    for name, (opcode, registers, modifiers) in {
        "both halves": ("v_mfma_f32_16x16x16_f16", (4, 5, 6, 7), {}),
        "one half": ("v_mfma_f32_16x16x16_f16", (4, 6, 7), {}),
        "half of the second": ("v_mfma_f32_16x16x16_f16", (4, 5, 6), {}),
        "bytes": ("v_mfma_i32_16x16x32_i8", (4, 5, 6, 7), {}),
        "half of the bytes": ("v_mfma_i32_16x16x32_i8", (4, 6, 7), {}),
        "one register": ("v_mfma_f32_16x16x4_f32", (4, 6), {}),
        "lanes of the pattern": ("v_mfma_f32_16x16x4_f32", (4, -6), {"blgp": 1}),
        "lanes": ("v_mfma_f32_16x16x4_f32", (4, -6), {}),
        "the block": ("v_mfma_f32_32x32x1_2b_f32", (-4, 6), {"cbsz": 1, "abid": 0}),
        "another block": ("v_mfma_f32_32x32x1_2b_f32", (-4, 6), {"cbsz": 1, "abid": 1}),
        "a sum": ("v_mfma_f32_16x16x4_f32", (4, 6, 8, 9, 10, 11), {}),
        "half of a sum": ("v_mfma_f32_16x16x4_f32", (4, 6, 8, 9), {}),
        "lanes of a sum": ("v_mfma_f32_16x16x4_f32", (4, 6, 8, 9, -10, 11), {}),
    }.items():
        written = [older.v_mov_b32_e32(v[number], 0) for number in registers if number > 0]
        of_few = [older.v_mov_b32_e32(v[-number], 0) for number in registers if number < 0]
        factors = (v[4], v[6]) if opcode.endswith("f32") else (v[4:5], v[6:7])
        results = v[8:39] if "32x32" in opcode else v[8:11]
        product = getattr(older, opcode)(results, *factors, results if 8 in registers else 0, **modifiers)
        wait = [older.s_nop(15)] * 2
        code = [*written, *few, *of_few, *all_lanes, *wait, product, *wait]
        code += [older.global_store_dword(addr=v[1], data=v[8], saddr=OUT)]
        found = launched(code, 64, *arrays(), begin=begin, target="gfx942")
        result[name] = [one.split(": ")[1] for one in found]
    return result


class Raw(bytes):
    """An instruction that the tables do not have."""

    def to_bytes(self) -> bytes:
        return self


def transposed() -> dict[str, Any]:
    """Load what is transposed on the way from the LDS: on gfx1250 in blocks of lanes, on gfx950 by rows."""
    result = {}
    draw = np.random.default_rng(8)
    begin = [newer.s_load_b64(place, s[0:1], ioffset=at, soffset=NULL) for place, at in ((OUT, 0), (X, 8))]
    for name, size, turn in (
        ("ds_load_tr16_b128", 16, lambda x: x.view(np.uint16).reshape(4, 8, 8).transpose(0, 2, 1)),
        ("ds_load_tr8_b64", 8, lambda x: x.reshape(2, 2, 2, 4, 8).transpose(0, 2, 4, 1, 3)),
    ):
        x, out = draw.integers(0, 256, 32 * size, np.uint8), np.zeros(32 * size, np.uint8)
        registers, made, bits = (v[4 : 3 + size // 4], v[8 : 7 + size // 4], 8 * size)
        load = Raw(encoded("gfx1250", "DS", name, vdst=8, addr=1)[:8])
        code = [
            *(newer.s_wait_kmcnt(simm16=0), newer.v_lshlrev_b32_e32(v[1], size.bit_length() - 1, v[0])),
            getattr(newer, f"global_load_b{bits}")(vdst=registers, vaddr=v[1:2], saddr=X),
            *(newer.s_wait_loadcnt(simm16=0), getattr(newer, f"ds_store_b{bits}")(addr=v[1], data0=registers)),
            *(newer.s_wait_dscnt(simm16=0), load, newer.s_wait_dscnt(simm16=0)),
            getattr(newer, f"global_store_b{bits}")(vaddr=v[1:2], vsrc=made, saddr=OUT),
        ]
        found = launched(code, 32, out, x, begin=begin, target="gfx1250", lds=512)
        result[name] = found or out.tobytes() == turn(x).tobytes()
    begin = [older.s_load_dwordx2(place, s[0:1], offset=at, imm=1) for place, at in ((OUT, 0), (X, 8))]
    for kind, lines in ((np.uint16, 4), (np.uint8, 8)):
        x, out = draw.integers(0, 256, 512, np.uint8), np.zeros(512, np.uint8)
        name, wait = f"ds_read_b64_tr_b{8 * np.dtype(kind).itemsize}", older.s_waitcnt(0)
        code = [
            *(wait, older.v_lshlrev_b32_e32(v[1], 3, v[0])),
            *(older.global_load_dwordx2(vdst=v[4:5], addr=v[1], saddr=X), wait),
            *(older.ds_write_b64(addr=v[1], data0=v[4:5]), wait, getattr(older, name)(vdst=v[8:9], addr=v[1]), wait),
            older.global_store_dwordx2(addr=v[1], data=v[8:9], saddr=OUT),
        ]
        found = launched(code, 64, out, x, begin=begin, target="gfx950", lds=512)
        result[name] = found or out.tobytes() == x.view(kind).reshape(4, lines, 16).transpose(0, 2, 1).tobytes()
    return result


def calls() -> dict[str, Any]:
    """Call a function behind the kernel, which adds five; and go to where nothing is."""
    result: dict[str, Any] = {}
    function = [op.v_add_nc_u32_e32(v[2], 5, v[0]), op.s_setpc_b64(ssrc0=s[30:31])]
    for name, beyond in (("there", 0), ("nowhere", 400)):
        out, x = arrays(32)
        behind = [op.s_swappc_b64(s[30:31], s[8:9]), op.v_lshlrev_b32_e32(v[1], 2, v[0]), store(v[2], v[1])]
        distance = 8 + sum(len(one.to_bytes()) for one in (*behind, op.s_endpgm())) + beyond
        begin = [op.s_getpc_b64(s[8:9]), op.s_add_u32(s[8], s[8], s[21]), op.s_addc_u32(s[9], s[9], 0)]
        code = [op.s_movk_i32(s[21], distance), *begin, *behind]
        result[name] = launched(code, 32, out, x, function=function)
        result[f"{name} same"] = (out == x + 5).all()
    return result


def variables() -> dict[str, Any]:
    """Write a variable of a code object, and read it in another kernel by the object's pointer; or write that."""
    arguments = (Argument("out", "global_buffer", 0, 8),)
    begin = [op.s_load_b64(OUT, s[0:1], 0, soffset=NULL), op.s_getpc_b64(s[8:9]), op.v_mov_b32_e32(v[1], 0)]
    known = 12  # bytes before the address that s_getpc returns
    result: dict[str, Any] = {}
    for name, place in (("variable", 2048), ("pointer", 2056)):
        write = [
            *begin,
            op.v_mov_b32_e32(v[2], 7),
            op.global_store_b32(addr=v[1], data=v[2], saddr=s[8:9], offset=place - known),
        ]
        read = [
            *begin, op.s_load_b64(s[10:11], s[8:9], 2056 - 1024 - known, soffset=NULL), op.s_waitcnt(0),
            op.global_load_b32(vdst=v[2], addr=v[1], saddr=s[10:11]), op.s_waitcnt(0), store(v[2], v[1]),
        ]  # fmt: skip
        texts = [b"".join(one.to_bytes() for one in (*code, op.s_endpgm())) for code in (write, read)]
        image = texts[0].ljust(1024, b"\0") + texts[1].ljust(1024, b"\0") + bytes(16)
        kernels = {
            key: Kernel(key, text, at, 0, 0, 8, (0xC0 << 12, 2 << 1 | 1 << 7, 0), 8 | 1 << 10, 0, arguments)
            for key, text, at in (("write", texts[0], 0), ("read", texts[1], 1024))
        }
        code = CodeObject(kernels, image, {}, {}, [(2048, 8)], [(2056, 2048)])
        out, _ = arrays(1)
        found = [Program(code, "gfx1100", key).launch((1,), 1, [Memory.of("out", out)]).findings for key in kernels]
        result[name] = [str(one) for each in found for one in each]
        result[f"{name} read"] = int(out[0])
    return result


def spaces() -> dict[str, Any]:
    """Use the LDS and private memory by addresses that have no space of their own."""
    result: dict[str, Any] = {}
    begin = [op.v_lshlrev_b32_e32(v[1], 2, v[0]), op.v_mov_b32_e32(v[2], v[1]), op.v_mov_b32_e32(v[3], s[9])]
    begin += [op.v_xor_b32_e32(v[6], 128, v[1]), op.v_mov_b32_e32(v[7], s[9]), op.v_mov_b32_e32(v[5], 0)]
    begin += [op.v_mov_b32_e32(v[8], 0), op.v_mov_b32_e32(v[9], s[9])]
    for name, (space, threads, code) in {**shared(), **private()}.items():
        place = [op.v_mov_b32_e32(v[2], 4)] if space is PRIVATE else []
        code = [op.s_mov_b64(s[8:9], space), *begin, *place, *code, op.s_waitcnt(0), store(v[4], v[1])]
        out, x = arrays()
        result[name] = launched(code, threads, out, x, lds=256, scratch=8)
        result[f"{name} out"] = out.tolist()
    return result


def flat_put(place: Any, **fields: int) -> Any:
    return op.flat_store_b32(addr=place, data=v[0], saddr=NULL, **fields)


def flat_get(place: Any) -> Any:
    return op.flat_load_b32(vdst=v[4], addr=place, saddr=NULL)


def shared() -> dict[str, Any]:
    """Return programs that use the LDS so: at the lane's own place, another wave's, or the first."""
    own, other, first_place, wait, barrier = v[2:3], v[6:7], v[8:9], op.s_waitcnt(0), op.s_barrier()
    put, get = op.ds_store_b32(addr=v[1], data0=v[0]), op.ds_load_b32(vdst=v[4], addr=v[1])
    zeros = [op.ds_store_b32(addr=v[1], data0=v[5]), wait, barrier]
    add = op.flat_atomic_add_u32(addr=first_place, data=v[0], saddr=NULL)
    early = [op.s_waitcnt_vmcnt(sdst=NULL, simm16=0), store(v[4], v[1])]
    return {
        "written": (SHARED, 64, [flat_put(own), wait, get]),
        "read": (SHARED, 64, [put, wait, flat_get(own)]),
        "parts": (SHARED, 64, [put, wait, op.flat_load_u8(vdst=v[4], addr=own, saddr=NULL)]),
        "unwritten": (SHARED, 32, [flat_get(own)]),
        "outside": (SHARED, 32, [flat_put(own, offset=136)]),
        "a race": (SHARED, 64, [flat_put(own), wait, flat_get(other)]),
        "no race": (SHARED, 64, [flat_put(own), wait, barrier, flat_get(other)]),
        "no wait": (SHARED, 64, [flat_put(own), barrier, get]),
        "no wait for a load": (SHARED, 64, [put, wait, flat_get(own), *early]),
        "added": (SHARED, 64, [*zeros, add, wait, barrier, flat_get(first_place)]),
    }


def private() -> dict[str, Any]:
    """Return programs that use private memory so, of eight bytes."""
    load = op.scratch_load_b32(vdst=v[4], addr=v[5], saddr=NULL, sve=1, offset=4)
    return {
        "private": (PRIVATE, 64, [flat_put(v[2:3]), op.s_waitcnt(0), load]),
        "outside private": (PRIVATE, 64, [flat_put(v[2:3], offset=8)]),
        "an atomic": (PRIVATE, 64, [op.flat_atomic_add_u32(addr=v[2:3], data=v[0], saddr=NULL)]),
    }


def lanes() -> dict[str, Any]:
    """Write private memory of gfx1250 by an address that names the lane, and read that of the next lane."""
    begin = [newer.s_load_b64(place, s[0:1], ioffset=at, soffset=NULL) for place, at in ((OUT, 0), (X, 8))]
    number = [newer.v_lshlrev_b32_e32(v[1], 2, v[0]), newer.v_mov_b32_e32(v[2], 4), newer.v_xor_b32_e32(v[4], 1, v[0])]
    high = [newer.v_lshlrev_b32_e32(v[3 + 2 * k], 20, v[4 * k]) for k in (0, 1)]
    high += [newer.v_or_b32_e32(v[3 + 2 * k], LANES_HIGH, v[3 + 2 * k]) for k in (0, 1)] + [
        newer.v_mov_b32_e32(v[4], 4)
    ]
    code = [
        *(newer.s_wait_kmcnt(simm16=0), *number, *high),
        newer.flat_store_b32(vaddr=v[2:3], vsrc=v[0], saddr=NULL),
        *(newer.s_wait_storecnt_dscnt(simm16=0), newer.flat_load_b32(vdst=v[6], vaddr=v[4:5], saddr=NULL)),
        *(newer.s_wait_loadcnt_dscnt(simm16=0), newer.global_store_b32(vaddr=v[1:2], vsrc=v[6], saddr=OUT)),
    ]
    out, x = arrays(32)
    return {"found": launched(code, 32, out, x, begin=begin, target="gfx1250", scratch=8), "same": (out == x ^ 1).all()}


def spills() -> dict[str, Any]:
    """Read a lane that nobody wrote, of a register with scalars in its lanes or of another; and reload by a scalar."""
    begin = [older.s_load_dwordx2(place, s[0:1], offset=at, imm=1) for place, at in ((OUT, 0), (X, 8))]
    # The result of v_readlane is the scalar register of that number.
    keep = [
        older.s_waitcnt(0),
        older.v_lshlrev_b32_e32(v[1], 2, v[0]),
        older.v_writelane_b32(v[9], s[4], 0),
        older.s_nop(0),
    ]
    last = [older.s_waitcnt(0), older.global_store_dword(addr=v[1], data=v[0], saddr=OUT)]
    reload = older.scratch_load_dword(vdst=v[4], addr=v[0], saddr=s[34], sve=0, offset=4)
    zero = [older.s_mov_b32(s[34], 0), older.v_readlane_b32(v[30], v[9], 0)]
    return {
        name: launched([*keep, *code, *last], 64, *arrays(), begin=begin, target="gfx942", scratch=8)
        for name, code in {
            "spilled": [older.v_readlane_b32(v[20], v[9], 5)],
            "another": [older.v_readlane_b32(v[20], v[10], 5)],
            "by a scalar": [older.s_mov_b32(s[21], 5), older.v_readlane_b32(v[20], v[9], s[21])],
            "the next scalar": [*zero, older.v_readlane_b32(v[35], v[9], 0), reload],
            "the scalar": [*zero, older.v_readlane_b32(v[34], v[9], 5), reload],
        }.items()
    }


def asks() -> dict[str, Any]:
    """Read what an argument of the compiler leads to that only a host can answer, or only the argument."""
    place = op.s_load_b64(s[8:9], s[0:1], 16, soffset=NULL)
    own = [op.v_lshlrev_b32_e32(v[1], 2, v[0]), op.v_mov_b32_e32(v[2], 0), place, op.s_waitcnt(0), store(v[0], v[1])]
    ask = [*own, *FEW, op.global_load_b32(vdst=v[3], addr=v[2], saddr=s[8:9], offset=8), op.s_branch(0xFFFF)]
    load = op.s_load_b32(s[10], s[8:9], 0, soffset=NULL)
    return {
        "printf": launched(ask, 32, *arrays(32), hidden="hidden_hostcall_buffer"),
        "malloc": launched([*own, load], 32, *arrays(32), hidden="hidden_heap_v1"),
        "none": launched(own, 32, *arrays(32), hidden="hidden_hostcall_buffer"),
    }


def started() -> dict[str, Any]:
    """Read the packet of the launch, the number of the dispatch and the queue, whose pointers come before others."""
    out, x = arrays(32)
    pointers = 2 | 4 | 8 | 16  # packet, queue, arguments, number: eight scalars, and then the block's number
    begin = [op.s_load_b64(OUT, s[4:5], 0, soffset=NULL), op.s_waitcnt(0), op.v_mov_b32_e32(v[1], 0)]
    begin[1:1] = [op.s_load_b512(s[12:27], s[0:1], 0, soffset=NULL), op.v_mov_b32_e32(v[2], s[6])]
    words = [*(s[12 + number] for number in range(1, 8)), v[2]]
    put = [
        one
        for place, word in enumerate(words)
        for one in (
            op.v_mov_b32_e32(v[3], word),
            op.global_store_b32(addr=v[1], data=v[3], saddr=OUT, offset=4 * place),
        )
    ]
    options: dict[str, Any] = {"begin": begin, "resources": 8 << 1 | 1 << 7, "properties": pointers, "grid": (3, 2)}
    told = launched(put, (16, 2), out, x, lds=64, **options)
    ask = [op.s_load_b32(s[28], s[2:3], 0, soffset=NULL)]
    return {"found": told, "words": out.view(np.uint32)[:8].tolist(), "queue": launched(ask, 32, out, x, **options)}


def upper() -> dict[str, Any]:
    """Use registers from v512 on of gfx1250, whose upper bits an opcode of their own sets, or a constant for MODE."""
    result: dict[str, Any] = {}
    begin = [newer.s_load_b64(place, s[0:1], ioffset=at, soffset=NULL) for place, at in ((OUT, 0), (X, 8))]
    address = [newer.s_wait_kmcnt(simm16=0), newer.v_lshlrev_b32_e32(v[1], 2, v[0])]
    of_result, of_data = 3 << 6, 3 << 2  # for s_set_vgpr_msb: of the result, and of the second operand
    rounding, upper_of_mode = 1 | 0 << 6 | 3 << 11, 12  # MODE, from bit 0 on, four bits
    last = newer.global_store_b32(vaddr=v[1:2], vsrc=v[9], saddr=OUT)
    for name, first, second in (
        ("opcode", [newer.s_nop(0)], [newer.s_nop(0)]),
        ("constant", [newer.s_setreg_imm32_b32(simm16=rounding, literal=3 << upper_of_mode)],
                     [newer.s_setreg_imm32_b32(simm16=rounding, literal=3 << upper_of_mode + 4)]),
        ("zeros", [newer.s_setreg_imm32_b32(simm16=rounding, literal=3 << upper_of_mode)],
                  [newer.s_setreg_imm32_b32(simm16=rounding, literal=0)]),
        ("register", [newer.s_setreg_b32(s[8], rounding)], []),
        ("read", [newer.s_getreg_b32(s[8], 1 | 12 << 6 | 7 << 11)], []),
    ):  # fmt: skip
        set_result, set_data = (msb(of_result), msb(of_data)) if name in ("opcode", "register") else ([], [])
        out, x = arrays(32)
        code = [*address, *set_result, *first, newer.v_mov_b32_e32(v[9], v[0]), *set_data, *second, last, *msb(0)]
        result[name] = launched(code, 32, out, x, begin=begin, target="gfx1250")
        result[f"{name} same"] = (out == x).all()
    return result


def msb(bits: int) -> list[Any]:
    """Return the opcode of gfx1250 that sets the upper bits of registers."""
    return [Raw((0xBF860000 | bits).to_bytes(4, "little"))]


def floats() -> dict[str, Any]:
    """Exchange numbers of the LDS where they are equal as floats, and add and compare doubles on gfx1250."""
    result: dict[str, Any] = {}
    special = [0.0, -0.0, 1.5, np.nan, np.inf, -2.0, 3.0, 1e-40]
    for kind, registers, size in ((np.float32, (v[4], v[6], v[8]), 32), (np.float64, (v[4:5], v[6:7], v[8:9]), 64)):
        old, wanted = (
            np.array(one, kind) for one in (special * 4, [-0.0, 0.0, 1.5, np.nan, np.inf, 2.0, 3.5, 1e-40] * 4)
        )
        new = np.arange(32).astype(kind) + 10
        out, x = old.copy(), np.stack([wanted, new], 1)
        width = size // 32
        code = [
            *(op.v_lshlrev_b32_e32(v[1], 1 + width, v[0]), op.v_lshlrev_b32_e32(v[2], 2 + width, v[0])),
            getattr(op, f"global_load_b{size}")(vdst=registers[0], addr=v[1], saddr=OUT),
            getattr(op, f"global_load_b{size}")(vdst=registers[1], addr=v[2], saddr=X),
            getattr(op, f"global_load_b{size}")(vdst=registers[2], addr=v[2], saddr=X, offset=size // 8),
            *(op.s_waitcnt(0), getattr(op, f"ds_store_b{size}")(addr=v[1], data0=registers[0])),
            getattr(op, f"ds_cmpstore_f{size}")(addr=v[1], data0=registers[2], data1=registers[1]),
            *(op.s_waitcnt(0), getattr(op, f"ds_load_b{size}")(vdst=registers[0], addr=v[1]), op.s_waitcnt(0)),
            getattr(op, f"global_store_b{size}")(addr=v[1], data=registers[0], saddr=OUT),
        ]
        found = launched(code, 32, out, x, lds=512)
        right = np.where(old == wanted, new, old)
        result[f"exchanged {size}"] = found or out.tobytes() == right.tobytes()
    begin = [newer.s_load_b64(place, s[0:1], ioffset=at, soffset=NULL) for place, at in ((OUT, 0), (X, 8))]
    draw = np.random.default_rng(9).standard_normal((2, 32))
    for name, how in (("add", np.add), ("min_num", np.minimum), ("max_num", np.maximum)):
        for space in ("global", "flat", "LDS"):
            out, x = draw[0].copy(), draw[1].copy()
            atomic = doubles(name, space)
            code = [newer.s_wait_kmcnt(simm16=0), newer.v_lshlrev_b32_e32(v[1], 3, v[0])]
            code += [newer.global_load_b64(vdst=v[4:5], vaddr=v[1:2], saddr=X), newer.s_wait_loadcnt(simm16=0)]
            found = launched([*code, *atomic], 32, out, x, begin=begin, target="gfx1250", lds=256)
            result[f"{name} {space}"] = found or out.tobytes() == how(*draw).tobytes()
    return result


def doubles(name: str, space: str) -> list[Any]:
    """Return instructions of gfx1250 that combine a double of memory or of the LDS with the one in v[4:5]."""
    if space == "LDS":
        change = Raw(encoded("gfx1250", "DS", f"ds_{name}_f64", addr=1, data0=4)[:8])
        load, wait = newer.global_load_b64(vdst=v[6:7], vaddr=v[1:2], saddr=OUT), newer.s_wait_dscnt(simm16=0)
        keep = [load, newer.s_wait_loadcnt(simm16=0), newer.ds_store_b64(addr=v[1], data0=v[6:7])]
        back = [newer.ds_load_b64(vdst=v[6:7], addr=v[1]), wait]
        return [*keep, change, *back, newer.global_store_b64(vaddr=v[1:2], vsrc=v[6:7], saddr=OUT)]
    encoding = "VGLOBAL" if space == "global" else "VFLAT"
    return [Raw(encoded("gfx1250", encoding, f"{space}_atomic_{name}_f64", vaddr=1, vsrc=4, saddr=4)[:12])]


def blocks() -> dict[str, Any]:
    """Store what a thread of a block of 4 x 4 x 2 knows of its place: in one register, or in three."""
    out, x = arrays(32)
    number = [op.v_mbcnt_lo_u32_b32(v[1], -1, 0), op.v_lshlrev_b32_e32(v[1], 2, v[1])]
    resources = 2 << 1 | 1 << 7 | 2 << 11
    found = launched([*number, store(v[0], v[1])], (4, 4, 2), out, x, resources=resources)
    packed = (out == (x & 3 | (x >> 2 & 3) << 10 | x >> 4 << 20)).all()
    apart, x = arrays(32)
    begin = [older.s_load_dwordx2(OUT, s[0:1], offset=0, imm=1), older.s_waitcnt(0)]
    code = [
        older.v_mbcnt_lo_u32_b32(v[3], -1, 0), older.v_lshlrev_b32_e32(v[3], 2, v[3]),
        older.v_lshl_or_b32(v[4], v[2], 8, v[0]), older.v_lshl_or_b32(v[4], v[1], 4, v[4]),
        older.global_store_dword(addr=v[3], data=v[4], saddr=OUT),
    ]  # fmt: skip
    found += launched(code, (4, 4, 2), apart, x, begin=begin, target="gfx908", resources=resources)
    return {"found": found, "packed": packed, "apart": (apart == (x & 3 | (x >> 2 & 3) << 4 | x >> 4 << 8)).all()}


def shares() -> dict[str, Any]:
    """Store to the LDS that the kernel has and the launch asks for in addition, and behind it."""
    out, x = arrays()
    code = [op.v_mov_b32_e32(v[1], 0), op.ds_store_b32(addr=v[1], data0=v[0], offset0=124)]
    outside = [op.v_mov_b32_e32(v[1], 0), op.ds_store_b32(addr=v[1], data0=v[0], offset0=128)]
    return {name: launched(one, 1, out, x, lds=64, shared=64) for name, one in (("inside", code), ("outside", outside))}


def indexed() -> dict[str, Any]:
    """Write a register whose number M0 says, and read it by its number, and by M0; or read one that nobody wrote."""
    result: dict[str, Any] = {}
    address = op.v_lshlrev_b32_e32(v[1], 2, v[0])
    to_fifth = [op.s_mov_b32(M0, 2), op.v_movreld_b32_e32(v[3], v[0])]
    for name, moves in (
        ("to", [*to_fifth, op.v_mov_b32_e32(v[2], v[5])]),
        ("from", [*to_fifth, op.s_mov_b32(M0, 1), op.v_movrels_b32_e32(v[2], v[4])]),
        ("other", [*to_fifth, op.v_movrels_b32_e32(v[2], v[4])]),
    ):
        out, x = arrays(32)
        result[name] = launched([address, *moves, store(v[2], v[1])], 32, out, x)
        result[f"{name} same"] = (out == x).all()
    return result


def bits() -> dict[str, Any]:
    """Store what is put together from a register that nobody wrote: each half anew, one half, or a number of it."""
    halves = [op.v_bfi_b32(v[2], mask, v[0], v[2]) for mask in (s[8], s[9])]
    masks = [op.s_mov_b32(s[8], 0xFFFF), op.s_not_b32(s[9], s[8])]
    last = [op.v_lshlrev_b32_e32(v[1], 2, v[0]), store(v[2], v[1])]
    kinds = {
        "both": halves,
        "one": halves[:1],
        "none left": [op.v_and_b32_e32(v[2], 0, v[2])],
        "least": [op.v_min_i32_e32(v[2], 5, v[2])],
        "sum": [op.v_add_nc_u32_e32(v[2], 5, v[2])],
        "a float": [op.v_max_f32_e32(v[2], 1.0, v[2])],
    }
    return {name: launched([*masks, *code, *last], 32, *arrays(32)) for name, code in kinds.items()}


def branches() -> dict[str, Any]:
    """Jump over an instruction by each condition, where it holds and where it does not."""
    result: dict[str, Any] = {}
    compare, vcc, lanes = op.s_cmp_eq_u32, op.s_mov_b32, [op.s_mov_b32(s[9], EXEC_LO)]
    for name, holds, fails in (
        ("scc0", compare(s[8], 1), compare(s[8], 0)), ("scc1", compare(s[8], 0), compare(s[8], 1)),
        ("vccz", vcc(VCC_LO, 0), vcc(VCC_LO, 4)), ("vccnz", vcc(VCC_LO, 4), vcc(VCC_LO, 0)),
        ("execz", op.s_mov_b32(EXEC_LO, 0), op.s_mov_b32(EXEC_LO, 4)),
        ("execnz", op.s_mov_b32(EXEC_LO, 4), op.s_mov_b32(EXEC_LO, 0)),
    ):  # fmt: skip
        for place, state in enumerate((holds, fails)):
            code = [op.s_mov_b32(s[8], 0), *lanes, state, getattr(op, f"s_cbranch_{name}")(1), op.s_movk_i32(s[8], 7)]
            code += [op.s_mov_b32(EXEC_LO, s[9]), op.v_lshlrev_b32_e32(v[1], 2, v[0]), op.v_mov_b32_e32(v[2], s[8])]
            out, x = arrays(32)
            found = launched([*code, store(v[2], v[1])], 32, out, x)
            result[f"{name} {place}"] = found or bool((out == 7 * place).all())
    return result


def saturated() -> dict[str, Any]:
    """Add, subtract and multiply integers that a clamp keeps in their range: of 32 bits, of 16, and pairs."""
    result: dict[str, Any] = {}
    ends = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 0x7FFF8000, 0x80007FFF, 0xFFFF0001], np.uint32)
    draw = np.random.default_rng(4).integers(0, 2**32, (3, 32), np.uint32)
    draw[0, :8], draw[1, :8], draw[2, 8:16] = ends, ends[::-1], ends
    draw[1, 8:16] = ends
    steps = {"add": np.add, "sub": np.subtract, "subrev": lambda a, b: b - a}
    for encoding, name, kind in (
        *(("VOP3", f"v_{step}_nc_{kind}", kind) for step in ("add", "sub") for kind in ("i32", "u32", "i16")),
        *(("VOP3", name, name[-3:]) for name in ("v_subrev_nc_u32", "v_mad_u16", "v_mad_i16")),
        *(("VOP3P", f"v_pk_{step}_{kind}", kind) for step in ("add", "sub") for kind in ("u16", "i16")),
    ):
        made = np.dtype(kind.replace("i", "int").replace("u", "uint"))
        a, b, c = (one.view(made).reshape(32, -1).astype(np.int64) for one in draw)
        right = a * b + c if "mad" in name else steps[name.split("_")[1 + ("pk" in name)]](a, b)
        right = np.clip(right, np.iinfo(made).min, np.iinfo(made).max).astype(made)[:, : None if "pk" in name else 1]
        fields = {"opsel_hi": 3, "opsel_hi2": 1} if "pk" in name else {}
        code = encoded("gfx1100", encoding, name, vdst=RESULT, src0=256, src1=257, src2=258, clmp=1, **fields)
        got = executed("gfx1100", code, dict(enumerate(draw)))[RESULT].copy().view(made).reshape(32, -1)
        result[name] = bool((got[:, : right.shape[1]] == right).all())
    return result


def rounded() -> dict[str, Any]:
    """Take functions of numbers whose results are rounded to the nearest, and round halves to even ones."""
    result: dict[str, Any] = {}
    draw = np.random.default_rng(12).uniform(0.01, 40, 32)
    draw[:6] = [0.5, 1.5, 2.5, 3.5, 4.5, 6.5]
    turn = 2 * np.pi
    functions = {
        "exp": np.exp2, "log": np.log2, "rcp": np.reciprocal, "sqrt": np.sqrt, "rsq": lambda x: 1 / np.sqrt(x),
        "sin": lambda x: np.sin(turn * (x - np.rint(x))), "cos": lambda x: np.cos(turn * (x - np.rint(x))),
        "rndne": np.rint, "rcp_iflag": np.reciprocal,
    }  # fmt: skip
    for name, function in functions.items():
        kinds = {"rndne": (np.float32, np.float16, np.float64), "rcp_iflag": (np.float32,)}
        for kind in kinds.get(name, (np.float32, np.float16)):
            size = 8 * np.dtype(kind).itemsize
            x = draw.astype(kind)
            with np.errstate(over="ignore"):
                right = function(x.astype(np.float64)).astype(kind)
            words = (
                x.view(np.uint32).reshape(32, 2) if size == 64 else x.view(f"u{size // 8}").astype(np.uint32)[:, None]
            )
            code = encoded("gfx1100", "VOP1", f"v_{name}_f{size}", vdst=RESULT, src0=256)
            after = executed("gfx1100", code, dict(enumerate(words.T.copy())))[RESULT : RESULT + words.shape[1]]
            got = np.ascontiguousarray(after.T).view(kind).reshape(32, -1)[:, 0]
            result[f"{name} {size}"] = bool((got == right).all())
    return result


def scalars() -> dict[str, Any]:
    """Take the same functions of scalars, which RDNA 4 has, and round halves of them."""
    result: dict[str, Any] = {}
    begin = [newer.s_load_b64(place, s[0:1], ioffset=at, soffset=NULL) for place, at in ((OUT, 0), (X, 8))]
    values = np.array([0.5, 1.5, 2.5, 4.5, 0.3, 0.7, 3.1, 7.9, 11.3, 23.7])
    functions = {
        "exp": np.exp2, "log": np.log2, "rcp": np.reciprocal, "sqrt": np.sqrt, "rsq": lambda x: 1 / np.sqrt(x),
    }  # fmt: skip
    for name, size in (("rndne", 32), ("rndne", 16), *((name, 32) for name in functions)):
        kind = np.dtype(f"f{size // 8}")
        x = values.astype(kind)
        right = functions.get(name, np.rint)(x.astype(np.float64)).astype(kind)
        code = [newer.s_wait_kmcnt(simm16=0), newer.v_mov_b32_e32(v[1], 0)]
        for place, bits in enumerate(x.view(f"u{size // 8}").tolist()):
            if name in functions:
                one = Raw(encoded("gfx1201", "VOP3_SDST", f"v_s_{name}_f32", vdst=9, src0=8)[:8])
            else:
                one = getattr(newer, f"s_{name}_f{size}")(s[9], s[8])
            code += [newer.s_mov_b32(s[8], bits), one, newer.v_mov_b32_e32(v[2], s[9])]
            code += [newer.global_store_b32(vaddr=v[1:2], vsrc=v[2], saddr=OUT, ioffset=4 * place)]
        out = np.zeros(values.size, np.uint32)
        found = launched(code, 32, out, x.copy(), begin=begin, target="gfx1201")
        result[f"{name} {size}"] = found or out.astype(f"u{size // 8}").view(kind).tolist() == right.tolist()
    return result


def pairs() -> dict[str, Any]:
    """Add pairs of 16 bits in memory and in the LDS, which CDNA has, and borrow from a number with every bit set."""
    result: dict[str, Any] = {}
    begin = [older.s_load_dwordx2(place, s[0:1], offset=at, imm=1) for place, at in ((OUT, 0), (X, 8))]
    draw = np.random.default_rng(13).standard_normal((2, 64, 2)).astype(np.float32)
    first_steps = [older.s_waitcnt(0), older.v_lshlrev_b32_e32(v[1], 2, v[0])]
    first_steps += [older.global_load_dword(vdst=v[2], addr=v[1], saddr=X), older.s_waitcnt(0)]
    keep = [older.global_load_dword(vdst=v[3], addr=v[1], saddr=OUT), older.s_waitcnt(0)]
    keep += [older.ds_write_b32(addr=v[1], data0=v[3])]
    back = [older.s_waitcnt(0), older.ds_read_b32(vdst=v[4], addr=v[1]), older.s_waitcnt(0)]
    back += [older.global_store_dword(addr=v[1], data=v[4], saddr=OUT)]
    for name, kind in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        old, new = draw.astype(kind)
        right = (old.astype(np.float32) + new.astype(np.float32)).astype(kind)
        for place, code in (
            ("memory", [getattr(older, f"global_atomic_pk_add_{name}")(addr=v[1], data=v[2], saddr=OUT)]),
            ("LDS", [*keep, getattr(older, f"ds_pk_add_{name}")(addr=v[1], data0=v[2]), *back]),
        ):
            out = old.copy()
            found = launched([*first_steps, *code], 64, out, new.copy(), begin=begin, target="gfx942", lds=256)
            result[f"{name} {place}"] = found or out.tobytes() == right.tobytes()
    out, x = arrays(32)
    borrow = [
        op.s_mov_b32(s[8], 5),
        op.s_cmp_eq_u32(s[8], 5),
        op.s_subb_u32(s[8], s[8], -1),
        op.s_cselect_b32(s[9], 1, 0),
    ]
    last = [op.v_lshlrev_b32_e32(v[1], 2, v[0]), op.v_mov_b32_e32(v[2], s[8]), op.v_lshl_or_b32(v[2], s[9], 4, v[2])]
    result["borrow"] = launched([*borrow, *last, store(v[2], v[1])], 32, out, x) or bool((out == 5 + 16).all())
    return result


def traps() -> dict[str, Any]:
    """End eight lanes by a trap, behind which a loop halts the wave; go on behind that of a debugger; and no other."""
    address, own = op.v_lshlrev_b32_e32(v[1], 2, v[0]), store(v[0], v[1])
    halts = [op.s_sendmsg_rtn_b32(s[8], 0), op.s_sethalt(5), op.s_branch(0xFFFE)]
    result = {}
    for name, code in {
        "abort": [address, *FEW, own, op.s_trap(2), *halts, own],
        "around": [address, op.s_branch(4), op.s_trap(2), *halts, own],
        "debug": [address, op.s_trap(3), own],
        "other": [address, op.s_trap(7), own],
    }.items():
        out, x = arrays(32)
        result[name] = launched(code, 32, out, x)
        result[f"{name} stored"] = int((out == x).sum())
    return result


PROGRAMS: Sequence[Callable[[], dict[str, Any]]] = (
    overwritten,
    partial,
    carries,
    places,
    barriers,
    loops,
    wraps,
    atomics,
    combined,
    pointers,
    quotients,
    waits,
    parts,
    loaded,
    kept,
    products,
    transposed,
    branches,
    saturated,
    rounded,
    scalars,
    pairs,
    traps,
    calls,
    variables,
    spaces,
    lanes,
    spills,
    asks,
    started,
    upper,
    floats,
    blocks,
    shares,
    bits,
    indexed,
)


def main() -> None:
    for program in PROGRAMS:
        result = {name: bool(value) if isinstance(value, np.bool_) else value for name, value in program().items()}
        print(json.dumps([program.__name__, "gfx1100", result]))


if __name__ == "__main__":
    main()
