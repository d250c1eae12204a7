"""Programs of the emulator's tests, run in Triton's environment: each prints its name and what it found, as JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from emulated_programs import run_all

from gpu_emulators.amd import Memory, Program, decoding
from gpu_emulators.amd.triton_driver import FoundError, emulated

# Others have the same encodings: gfx1150 and gfx1151 as gfx1100, gfx1200 as gfx1201. Triton 3.6 knows no gfx906.
TARGETS = ("gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201", "gfx1250")
BY_DAY = ("gfx942", "gfx1100", "gfx1201")  # one of each family of encodings
ONLY_AT_NIGHT = ("gfx1250",)


@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def add_without_mask(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i) + tl.load(y + i), mask=i < n)


@triton.jit
def softmax(x, o, n, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + tl.program_id(0) * n + i, mask=i < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + tl.program_id(0) * n + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def dot(a, b, c, K, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr, SUM: tl.constexpr = tl.float32):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, B)
    acc = tl.zeros((M, N), SUM)
    for s in range(0, K, B):
        left = tl.load(a + i[:, None] * K + s + k[None, :])
        acc = tl.dot(left, tl.load(b + (s + k[:, None]) * N + j[None, :]), acc, out_dtype=SUM)
    tl.store(c + i[:, None] * N + j[None, :], acc)


@triton.jit
def count(o, n, B: tl.constexpr):
    tl.atomic_add(o + tl.arange(0, B) % n, 1)


@triton.jit
def whole(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    v = tl.load(x + i)
    tl.store(o + i, (v * 7 // 3) ^ (v >> 2) + tl.program_id(0) + tl.num_programs(0))


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def relative(got: torch.Tensor, right: torch.Tensor) -> float:
    return float((got.double() - right.double()).abs().max() / right.double().abs().max())


SMALL = {
    "gfx942": (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz),
    "others": (torch.float8_e4m3fn, torch.float8_e5m2),
}


def sums(target: str) -> dict[str, Any]:
    x, y = normal(2, 3000)
    out = torch.full((3000,), float("nan"))
    add[(3,)](x, y, out, 3000, B=1024)
    return {"same": torch.equal(out, x + y)}


def softmaxes(target: str) -> dict[str, Any]:
    x = normal(5, 500)
    out = torch.full((5, 500), float("nan"))
    softmax[(5,)](x, out, 500, B=512)
    return {"error": relative(out, x.double().softmax(1))}


def products(target: str) -> dict[str, Any]:
    errors = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        a, b = normal(32, 64, dtype=dtype), normal(64, 32, dtype=dtype)
        out = torch.full((32, 32), float("nan"))
        dot[(1,)](a, b, out, 64, M=32, N=32, B=32, num_warps=4)
        errors[str(dtype)[6:]] = relative(out, a.double() @ b.double())
    return {"errors": errors}


def products_of_bytes(target: str) -> dict[str, Any]:
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.randint(-128, 128, shape, generator=draw, dtype=torch.int8) for shape in ((32, 64), (64, 32)))
    out = torch.full((32, 32), 7, dtype=torch.int32)
    dot[(1,)](a, b, out, 64, M=32, N=32, B=32, SUM=tl.int32, num_warps=4)
    return {"error": relative(out, a.int() @ b.int())}


def products_of_small_numbers(target: str) -> dict[str, Any]:
    """Multiply numbers of 8 bits: each type with itself, and with the other one (gfx1201's compiler refuses that)."""
    types = SMALL["gfx942" if target == "gfx942" else "others"]
    errors = {}
    for left, right in [(0, 0), (1, 1), *([] if target == "gfx1201" else [(0, 1)])]:
        a, b = normal(32, 128, dtype=types[left]), normal(128, 32, dtype=types[right])
        out = torch.full((32, 32), float("nan"))
        dot[(1,)](a, b, out, 128, M=32, N=32, B=128, num_warps=1)
        errors[f"{left}{right}"] = relative(out, a.double() @ b.double())
    return {"errors": errors}


@triton.jit
def narrow(x, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty))


def conversions(target: str) -> dict[str, Any]:
    """Convert to 8 bits and back. What is too large becomes the largest number: the compiler sets MODE for it."""
    wrong = {}
    for kind in SMALL["gfx942" if target == "gfx942" else "others"]:
        x = normal(256) * 100
        x[:8] = torch.tensor([0.0, 1e-9, 1e9, -1e9, float("inf"), float("nan"), 448.0, -57344.0])
        small, back = torch.empty(256, dtype=kind), torch.empty(256)
        narrow[(1,)](x, small, B=256)
        narrow[(1,)](small, back, B=256)
        right = x.clamp(*(torch.finfo(kind).min, torch.finfo(kind).max)).to(kind).float()
        same = (small.float() == right) & (back == right) | (back.isnan() & x.isnan())
        wrong[str(kind)[6:]] = x[~same].tolist()
    return wrong


def atomics(target: str) -> dict[str, Any]:
    out = torch.zeros(8, dtype=torch.int32)
    count[(3,)](out, 8, B=256)
    return {"counts": out.tolist()}


def integers(target: str) -> dict[str, Any]:
    x = torch.randint(-(1 << 20), 1 << 20, (256,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    out = torch.zeros_like(x)
    whole[(1,)](x, out, B=256)
    quotient = torch.div(x * 7, 3, rounding_mode="trunc")
    return {"same": torch.equal(out, quotient ^ (x >> 2) + 1)}


@triton.jit
def rows(x, y, o, R: tl.constexpr, C: tl.constexpr):
    i, j = tl.arange(0, R), tl.arange(0, C)
    place = i[:, None] * C + j[None, :]
    v = tl.load(x + place) * tl.load(y + place)
    tl.store(o + i, tl.sum(v, axis=1) / 3)


def repeated(target: str) -> dict[str, Any]:
    """Sum fewer rows than the waves hold: several lanes and waves write each sum, with other last bits."""
    x, y = normal(2, 4, 32)
    out = torch.zeros(4)
    rows[(1,)](x, y, out, R=4, C=32, num_warps=4)
    return {"error": relative(out, (x.double() * y.double()).sum(1) / 3)}


@triton.jit
def divide(x, y, o, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o + i, tl.div_rn(tl.load(x + i), tl.load(y + i)))


def quotients(target: str) -> dict[str, Any]:
    """Divide numbers of all sizes, also subnormal ones: the steps of a division scale these."""
    draw = torch.Generator().manual_seed(1)
    bits = torch.randint(-(1 << 31), (1 << 31) - 1, (2, 4096), generator=draw, dtype=torch.int64).to(torch.int32)
    x, y = bits.view(torch.float32)
    special = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 1e-45, -3e-39, 3.4e38, 1.0])
    x[:64], y[:64] = special.repeat_interleave(8), special.repeat(8)
    out = torch.zeros(4096)
    divide[(1,)](x, y, out, B=4096)
    right = x / y
    same = (out.view(torch.int32) == right.view(torch.int32)) | (out.isnan() & right.isnan())
    return {"wrong": torch.stack([x[~same], y[~same], out[~same]], 1)[:4].tolist()}


def flushed(target: str) -> dict[str, Any]:
    """Let the compiler take subnormal numbers as zero: the kernel starts so, and sets MODE for a division."""
    x, y = normal(2, 256)
    x[::2] *= 2.0**-127
    total, ratio = torch.zeros(256), torch.zeros(256)
    add[(1,)](x, torch.zeros(256), total, 256, B=256, allow_flush_denorm=True)
    divide[(1,)](x, y, ratio, B=256, allow_flush_denorm=True)
    zeroed = torch.where(x.abs() < 2.0**-126, torch.zeros(256), x)
    return {"sum": torch.equal(total, zeroed), "ratio": torch.equal(ratio[1::2], (x / y)[1::2])}


GET, SHOWN = "s_nop 1\ns_getreg_b32 s40, hwreg(HW_REG_MODE, 0, 8)\n", "v_mov_b32 $0, s40"
MODE = {
    "half of it": "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 3\n" + GET + SHOWN,
    "a scalar": "s_movk_i32 s40, 5\ns_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s40\n" + GET + SHOWN,
    "rounding": "s_round_mode 10\n" + GET + SHOWN,
    "subnormal numbers": "s_denorm_mode 13\n" + GET + SHOWN,
    "up": "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\nv_mov_b32 $0, 1.0\nv_add_f32 $0, 0x31000000, $0",
    "exceptions": "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 12, 7), 1\nv_mov_b32 $0, 0",
    "no subnormal numbers of fp16": "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 6, 2), 0\nv_mov_b32 $0, 0",
}


def modes(target: str) -> dict[str, Any]:
    """Set and get parts of MODE: return what the register then has, or what was found."""
    x, told = torch.arange(64, dtype=torch.int32), {}
    for name, code in MODE.items():
        if target.startswith("gfx9") and "_mode " in code:
            continue
        o = torch.empty(64, dtype=torch.int32)
        try:
            by_hand[1,](x, o, code, num_warps=2)
        except FoundError as error:
            told[name] = str(error.findings[0]).split(": ")[1]
        else:
            told[name] = hex(int(o[0]))
    return told


def outside(target: str) -> dict[str, Any]:
    x, y = normal(1000), normal(1000)
    try:
        add_without_mask[(1,)](x, y, torch.zeros(1000), 1000, B=1024)
    except FoundError as error:
        return {"found": [[one.kind, str(one)] for one in error.findings]}
    return {"found": []}


def unknown(target: str) -> dict[str, Any]:
    code = "v_mov_b32 $0, 0\nv_cvt_sr_fp8_f32 $0, $0, $0"
    try:
        by_hand[1,](*torch.zeros(2, 64, dtype=torch.int32), code)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {}


class Kept:
    """The launches that a program made, to repeat them with other code."""

    def __init__(self, kind: Any = Program) -> None:
        self.kind = kind
        self.launches: list[tuple[Any, tuple[int, ...], int, list[Any], int]] = []
        self.arrays: list[Any] = []

    def copied(self, memory: Memory) -> Memory:
        """Copy the memory: a tensor is gone when its program has ended."""
        array = np.frombuffer(ctypes.string_at(memory.address, memory.size), np.uint8).copy()
        self.arrays.append(array)
        return Memory.of(memory.name, array)

    def __enter__(self) -> Kept:
        self._launch = self.kind.launch
        kept = self.launches

        def launch(program: Any, grid: Any, threads: int, arguments: Any, *, shared: int = 0, **rest: Any) -> Any:
            copies = [self.copied(one) if isinstance(one, Memory) else one for one in arguments]
            kept.append((program, tuple(grid), threads, copies, shared))
            return self._launch(program, grid, threads, arguments, shared=shared, **rest)

        self.kind.launch = launch
        return self

    def __exit__(self, *_: object) -> None:
        self.kind.launch = self._launch


def mutants(target: str) -> dict[str, Any]:
    """Leave out waits, barriers and loads of two kernels, each in turn, and count what tells it."""
    counts: dict[str, Counter[str]] = {"wait": Counter(), "barrier": Counter(), "load": Counter()}
    with Kept() as kept:
        softmaxes(target)
        products(target)
    for program, grid, threads, arguments, shared in kept.launches[:2]:
        program.launch(grid[:1], threads, arguments, shared=shared)
        right = contents(arguments)
        for one, behind in pairwise(program.instructions):
            kind = kind_of(one.name)
            if kind is None or (kind == "wait" and is_redundant(behind.name, target)):
                continue
            counts[kind]["mutants"] += 1
            try:
                ran = program.without(one.address).launch(grid[:1], threads, arguments, shared=shared, limit=10**6)
                kinds = {found.kind for found in ran.findings}
            except Exception:
                kinds = {"ended"}
            counts[kind].update(kinds or {"nothing" if contents(arguments) == right else "other numbers"})
    return counts


def contents(arguments: list[Any]) -> list[bytes]:
    return [ctypes.string_at(one.address, one.size) for one in arguments if isinstance(one, Memory)]


def is_redundant(behind: str, target: str) -> bool:
    """Return whether a wait is only for a register's other half: RDNA's loads of one kind fill both in order."""
    return target.startswith("gfx1") and "d16" in behind and "load" in behind


@triton.jit
def by_hand(x, o, code: tl.constexpr):
    """Store what code makes of the places of 64 numbers, in a register that nothing else uses."""
    places = x + tl.arange(0, 64)
    made = tl.inline_asm_elementwise(
        code,
        "=v,v,~{v200},~{v201},~{v202},~{s40},~{s41},~{s42},~{vcc}",
        [places],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )
    tl.store(o + tl.arange(0, 64), made)


LOW, HIGH = "global_load_d16_b16 v200, $1, off\n", "global_load_d16_hi_b16 v200, $1, off offset:2\n"
WAIT, ALL = "s_waitcnt vmcnt(0)\n", "v_mov_b32 $0, v200"
HALVES = {
    "both": LOW + HIGH + WAIT + ALL,
    "both, the low one awaited": LOW + HIGH + "s_waitcnt vmcnt(1)\nv_lshlrev_b16 v200, 0, v200\n" + WAIT + ALL,
    "both, the high one not awaited": LOW + HIGH + "s_waitcnt vmcnt(1)\n" + ALL,
    "both, none awaited": HIGH + LOW + "v_lshlrev_b16 $0, 0, v200\n" + WAIT,
    "low": LOW + WAIT + ALL,
    "high": HIGH + WAIT + ALL,
    **{
        f"low {used}": f"{LOW}{WAIT}{used}"
        for used in (
            "v_lshlrev_b32 $0, 16, v200",
            "v_and_b32 $0, 0xffff, v200",
            "v_perm_b32 $0, v200, v200, 0x05040504",
            "v_pack_b32_f16 $0, v200, v200",
            "v_pk_add_f16 $0, v200, v200 op_sel_hi:[0,0]",
            "v_cvt_f32_f16 $0, v200",
            "v_lshrrev_b32 $0, 16, v200",
            "v_add_nc_u32 $0, 1, v200",
            "v_pack_b32_f16 $0, v200, v200 op_sel:[0,1,0]",
        )
    },
}


def halves(target: str) -> dict[str, Any]:
    """Load halves of a register, and return what is found of each use."""
    x, told = torch.arange(64, dtype=torch.int32), {}
    for name, code in HALVES.items():
        o, found = torch.empty(64, dtype=torch.int32), []
        try:
            by_hand[1,](x, o, code, num_warps=2)
        except FoundError as error:
            found = sorted({one.kind for one in error.findings})
        told[name] = found or ("same" if torch.equal(o, x) else "")
    return told


SCALAR = """
v_mov_b64 v[200:201], $1
s_nop 0
v_readfirstlane_b32 s40, v200
v_readfirstlane_b32 s41, v201
s_mov_b32 s42, 12
s_load_dword s42, s[40:41], s42
s_waitcnt lgkmcnt(0)
v_mov_b32 $0, s42
"""


def scalar(target: str) -> dict[str, Any]:
    """Load a scalar whose offset is in a register."""
    x, o = torch.arange(64, dtype=torch.int32) + 7, torch.empty(64, dtype=torch.int32)
    by_hand[1,](x, o, SCALAR, num_warps=1)
    return {"loaded": sorted(set(o.tolist()))}


# Two instructions, and how many wait states gfx942 needs between them.
APART = (
    (1, "v_mov_b64 v[200:201], $1", "v_readfirstlane_b32 s41, v201"),
    (
        5,
        "v_mov_b32 v202, 0\nv_readfirstlane_b32 s40, v200",
        "global_load_dword v200, v202, s[40:41]\ns_waitcnt vmcnt(0)",
    ),
    (4, "v_mov_b32 v200, 0\ns_nop 0\nv_readfirstlane_b32 s40, v200", "v_readlane_b32 s41, v200, s40"),
    (4, "v_cmp_eq_u32 vcc, v200, v201", "v_div_fmas_f32 v201, v200, v200, v200"),
    (2, "v_cmp_eq_u32 vcc, v200, v201", "v_cndmask_b32 v201, v200, v200, vcc"),
    (2, "v_mov_b32 v200, 0", "v_mov_b32_dpp v201, v200 quad_perm:[0,0,0,0] row_mask:0xf bank_mask:0xf"),
    (1, "v_exp_f32 v200, v201", "v_add_f32 v201, v200, v200"),
    (1, "v_mov_b32_sdwa v200, v201 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0", "v_mov_b32 v201, v200"),
    (4, "v_cmpx_eq_u32 vcc, v200, v200", "v_readfirstlane_b32 s40, v201"),
    (10, "v_mfma_f32_16x16x4_f32 v[202:205], v200, v201, 0", "v_mov_b32 v200, v203"),
    (10, "v_mfma_f32_16x16x4_f32 v[202:205], v200, v201, 0", "v_mfma_f32_16x16x4_f32 v[206:209], v202, v201, 0"),
    (
        10,
        "v_mfma_f32_16x16x4_f32 v[202:205], v200, v201, 0",
        "buffer_load_dword v210, v[202:203], s[40:43], 0 idxen offen",
    ),
    (
        8,
        "v_mfma_f32_16x16x4_f32 v[202:205], v200, v201, 0",
        "v_mfma_f32_16x16x4_f32 v[204:207], v200, v200, v[204:207]",
    ),
    (2, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 0", "s_getreg_b32 s40, hwreg(HW_REG_MODE, 0, 8)"),
    (2, "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 2, 2), 0", "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0"),
)
NEAR = (  # each address is in one register, next to the first one of the product
    "v_mfma_f32_16x16x4_f32 v[202:205], v200, v200, 0\nbuffer_load_dword v210, v201, s[40:43], 0 offen",
    "v_mfma_f32_16x16x4_f32 v[202:205], v200, v200, 0\nbuffer_store_dword v210, v201, s[40:43], 0 idxen",
    "v_mfma_f32_16x16x4_f32 v[202:205], v200, v200, 0\nglobal_load_dword v210, v201, s[40:41]",
)
WMMA = "v_wmma_f32_16x16x16_f16 {}, v[216:223], v[224:231], {}".format
PERMUTED = "v_permlane16_b32 v201, v200, s40, s41"
# On RDNA vector instructions are between.
APART_ON_RDNA = (
    (1, "v_cmpx_eq_u32 v200, v200", PERMUTED),
    (1, WMMA(*["v[208:215]"] * 2), WMMA(*["v[232:239]"] * 2).replace("v[224:231]", "v[208:215]")),
    (6, "v_exp_f32 v200, v201", "v_add_f32 v202, v201, v200"),
    (6, "v_rcp_f32 v200, v201", "v_fmac_f32 v200, v201, v202"),
    (6, "v_log_f32 v200, v201", "v_dual_mov_b32 v202, v200 :: v_dual_mov_b32 v201, v203"),
)
WAITED_FOR = (
    "v_exp_f32 v200, v201\ns_waitcnt_depctr 0xfff\nv_add_f32 v202, v201, v200",
    "v_exp_f32 v200, v201\nds_load_b32 v202, v203\ns_waitcnt lgkmcnt(0)\nv_add_f32 v202, v201, v200",
    "v_exp_f32 v200, v201\nv_exp_f32 v202, v201\nv_exp_f32 v203, v201\nv_add_f32 v202, v201, v200",
    "v_exp_f32 v200, v201\nv_mov_b32 v200, 0\nv_add_f32 v202, v201, v200",
    f"v_cmpx_eq_u32 v200, v200\ns_nop 0\nv_mov_b32 v202, 0\n{PERMUTED}",
    f"{WMMA(*['v[208:215]'] * 2)}\n{WMMA(*['v[208:215]'] * 2)}",
)


def hazards(target: str) -> dict[str, Any]:
    """Launch instructions as far apart as they must be, and one wait state, or vector instruction, less far."""
    told, of_rdna = {}, not target.startswith("gfx9")
    waiting, apart = (moving, APART_ON_RDNA) if of_rdna else (idle, APART)
    for name, less in (("enough", 0), ("less", 1)):
        pairs = [f"{one}\n{waiting(states - less)}{two}\n{waiting(20)}" for states, one, two in apart]
        pairs += [f"{code}\n{waiting(20)}" for code in (WAITED_FOR if of_rdna else NEAR)]
        with Kept() as kept, suppress(FoundError):
            by_hand[1,](torch.arange(64), torch.empty(64, dtype=torch.int32), "".join(pairs) + "v_mov_b32 $0, 0")
        told[name] = [str(one).partition(": ")[2] for one in kept.launches[0][0].hazards]
    return told


def idle(states: int) -> str:
    return "".join(f"s_nop {min(15, left - 1)}\n" for left in range(states, 0, -16))


def moving(instructions: int) -> str:
    return "v_mov_b32 v240, 0\n" * instructions


OF_TARGETS = {
    "VOP2 4": (0x08000000, "gfx906 gfx90a"),
    "VOP2 0x16": (0x2C000000, "gfx908 gfx950"),
    "VOP2 0x17": (0x2E000000, "gfx90a gfx942"),
    "VOP3 0x1c1": (0xD1C10000, "gfx906"),
    "MFMA 0x67": (0xD3E70000, "gfx90a"),
    "MFMA 0x6d": (0xD3ED0000, "gfx908 gfx90a"),
    "MUBUF 0x3e": (0xE0F80000, "gfx906"),
}


def names() -> dict[str, dict[str, str]]:
    """Return what the same bytes are on targets of GFX9."""
    read = {opcode: (word.to_bytes(8, "little"), targets.split()) for opcode, (word, targets) in OF_TARGETS.items()}
    return {
        opcode: {target: decoding.decode(code, target)[0].name for target in targets}
        for opcode, (code, targets) in read.items()
    }


PRIVATE = """
global_load_b32 $0, $1, off
v_mov_b32 v200, -8
s_mov_b32 s40, -8
LOADED
scratch_store_b32 v200, $0, off offset:24
scratch_load_b32 $0, off, s40 offset:24
LOADED
"""


def private(target: str) -> dict[str, Any]:
    """Write to private memory behind a vector with a negative number, and read there behind such a scalar."""
    x, o = torch.arange(64, dtype=torch.int32), torch.empty(64, dtype=torch.int32)
    code = PRIVATE.replace("LOADED", "s_wait_loadcnt 0" if target == "gfx1201" else "s_waitcnt vmcnt(0)")
    with Kept() as kept, suppress(FoundError):  # the compiler knows of no private memory
        by_hand[1,](x, o, code, num_warps=2)
    [(program, grid, threads, arguments, shared)] = kept.launches
    program.kernel = replace(program.kernel, scratch=32)
    found = program.launch(grid, threads, arguments, shared=shared).findings
    result = np.frombuffer(contents(arguments)[1], np.int32)
    return {"found": sorted(one.kind for one in found), "same": bool((result == x.numpy()).all())}


def waves(target: str) -> dict[str, Any]:
    """Store the number of each wave, which the trap handler of RDNA 4 has in its registers."""
    o = torch.empty(64, dtype=torch.int32)
    by_hand[1,](torch.arange(64), o, "s_bfe_u32 s40, ttmp8, 0x50019\nv_mov_b32 $0, s40", num_warps=2)
    return {"numbers": o.tolist()}


def kind_of(name: str) -> str | None:
    if name == "s_barrier" or name == "s_barrier_wait":
        return "barrier"
    if name in ("s_waitcnt", "s_wait_loadcnt", "s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt_dscnt"):
        return "wait"
    if name.startswith(("ds_read", "ds_load", "buffer_load", "global_load")):
        return "load"
    return None


def protected(target: str) -> dict[str, Any]:
    """Launch a kernel on memory that it may not write, and with an argument that has another size."""
    with Kept() as kept:
        sums(target)
    program, grid, threads, arguments, shared = kept.launches[0]
    arguments[2] = Memory("o", arguments[2].address, arguments[2].size, writable=False)
    found = program.launch(grid, threads, arguments, shared=shared).findings
    try:
        program.launch(grid, threads, [*arguments[:3], b"\0\0", *arguments[4:]])
    except Exception as error:
        return {"found": [one.kind for one in found], "wrong": str(error)}
    return {"found": [one.kind for one in found]}


OF_BOTH = ("gfx942", "gfx1100")
PROGRAMS: tuple[tuple[Callable[[str], dict[str, Any]], tuple[str, ...]], ...] = (
    (sums, TARGETS),
    (softmaxes, (*TARGETS, "gfx908", "gfx1150", "gfx1200")),
    (products, (*TARGETS, "gfx908")),
    (products_of_bytes, (*TARGETS, "gfx908")),
    (atomics, TARGETS),
    (integers, TARGETS),
    (quotients, TARGETS),
    (repeated, TARGETS),
    (outside, OF_BOTH),
    (unknown, ("gfx950",)),
    (mutants, OF_BOTH),
    (protected, ("gfx942",)),
    (halves, ("gfx1100",)),
    (scalar, ("gfx942",)),
    (hazards, (*OF_BOTH, "gfx1151")),
    (private, ("gfx1100", "gfx1201")),
    (waves, ("gfx1201", "gfx1250")),
    (products_of_small_numbers, ("gfx942", "gfx950", "gfx1201", "gfx1250")),
    (conversions, ("gfx942", "gfx950", "gfx1201", "gfx1250")),
    (flushed, OF_BOTH),
    (modes, OF_BOTH),
)


def main() -> None:
    by_day = sys.argv[1:] == ["by-day"]
    for program, targets in PROGRAMS:
        few = by_day and {*TARGETS} <= {*targets}
        left_out = ONLY_AT_NIGHT if by_day else ()
        chosen = [target for target in targets if target in BY_DAY or not (few or target in left_out)]
        run_all([(program, chosen)], emulated)
    print(json.dumps(["names", "", names()]))
    print(json.dumps(["digests", "", {family: decoding.digest(family) for family in decoding.FAMILIES.values()}]))


if __name__ == "__main__":
    sys.exit(main())
