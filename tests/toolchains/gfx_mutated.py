"""Mutants of machine code that nobody chose: of each kind some instructions, drawn at random; prints JSON.

The kernels are of public patterns. A mutant is red by a finding, other numbers or an error, or it has the same bits.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import triton
import triton.language as tl
from gfx_mutants import Kernel, edited, told
from gfx_programs import normal

from gpu_emulators.amd import Program
from gpu_emulators.amd.code_object import read
from gpu_emulators.amd.decoding import FAMILIES, _decoder, _positions
from gpu_emulators.amd.instruction import Instruction
from gpu_emulators.amd.triton_driver import emulated

DRAWN = 2  # instructions of each kind
LIMIT = 100_000  # instructions of a mutant; the kernels have some thousand


@triton.jit
def online(x, o, n, B: tl.constexpr):
    """Compute a softmax of a row in blocks."""
    m = -float("inf")
    s = 0.0
    for j in range(tl.cdiv(n, B)):
        at = j * B + tl.arange(0, B)
        v = tl.load(x + at, at < n, -float("inf"))
        larger = tl.maximum(m, tl.max(v, 0))
        s = s * tl.exp(m - larger) + tl.sum(tl.exp(v - larger), 0)
        m = larger
    for j in range(tl.cdiv(n, B)):
        at = j * B + tl.arange(0, B)
        tl.store(o + at, tl.exp(tl.load(x + at, at < n, 0.0) - m) / s, at < n)


@triton.jit
def attention(q, k, v, o, T, H: tl.constexpr, B: tl.constexpr):
    """Compute causal attention of the second block of rows."""
    rows, h = B + tl.arange(0, B), tl.arange(0, H)
    qs = tl.load(q + rows[:, None] * H + h[None], rows[:, None] < T, 0)
    m, s = tl.full((B,), -float("inf"), tl.float32), tl.zeros((B,), tl.float32)
    total = tl.zeros((B, H), tl.float32)
    for n in range(0, 2 * B, B):
        columns = n + tl.arange(0, B)
        ks = tl.load(k + columns[None] * H + h[:, None], columns[None] < T, 0)
        scores = tl.where(rows[:, None] >= columns[None], tl.dot(qs, ks) * 0.2, -float("inf"))
        larger = tl.maximum(m, tl.max(scores, 1))
        p, old = tl.exp(scores - larger[:, None]), tl.exp(m - larger)
        s = s * old + tl.sum(p, 1)
        vs = tl.load(v + columns[:, None] * H + h[None], columns[:, None] < T, 0)
        total = tl.dot(p.to(vs.dtype), vs, total * old[:, None])
        m = larger
    tl.store(o + rows[:, None] * H + h[None], total / s[:, None], rows[:, None] < T)


@triton.jit
def _linear(a, b, c, d):
    return a * c, b * c + d


@triton.jit
def recurrent(a, b, o, R: tl.constexpr, B: tl.constexpr):
    """Compute h = a * h + b along each row."""
    at = tl.arange(0, R)[:, None] * B + tl.arange(0, B)[None]
    _, h = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 1, _linear)
    tl.store(o + at, h)


@triton.jit
def ragged(x, ends, o, rows, B: tl.constexpr):
    """Add up the parts of a row, whose ends are loaded, and count what is positive by atomics."""
    for row in range(rows):
        at, end, total = tl.load(ends + row), tl.load(ends + row + 1), 0.0
        while at < end:
            i = at + tl.arange(0, B)
            v = tl.load(x + i, i < end, 0.0)
            total += tl.sum(v, 0)
            tl.atomic_add(o + rows + (i % 8), (v > 0).to(tl.float32), i < end)
            at += B
        tl.store(o + row, total)


@triton.jit
def unpacked(w, scales, o, K: tl.constexpr, N: tl.constexpr):
    """Unpack numbers of 4 bits, multiply by scales, and transpose."""
    k, n = tl.arange(0, K), tl.arange(0, N)
    bits = tl.load(w + (k[:, None] // 8) * N + n[None]) >> (k % 8 * 4)[:, None] & 15
    values = (bits - 8).to(tl.float16) * tl.load(scales + n)[None]
    tl.store(o + n[:, None] * K + k[None], tl.trans(values))


def kernels() -> list[Kernel]:
    x, o = normal(300), torch.zeros(300)
    q, k, v = normal(3, 60, 32, dtype=torch.bfloat16)
    a, b = torch.rand(2, 4, 128)
    ends = torch.tensor([0, 3, 3, 200, 300], dtype=torch.int32)
    w, scales = torch.randint(-(2**31), 2**31, (8, 32), dtype=torch.int64).int(), normal(32, dtype=torch.float16)
    wide, rows, sums, back = torch.zeros(60, 32), torch.zeros(4, 128), torch.zeros(16), torch.zeros(32, 64).half()
    return [
        Kernel("online", lambda: online[1,](x, o, 300, B=128), (x, o, 300)),
        Kernel("attention", lambda: attention[1,](q, k, v, wide, 60, H=32, B=32), (q, k, v, wide, 60)),
        Kernel("recurrent", lambda: recurrent[1,](a, b, rows, R=4, B=128), (a, b, rows)),
        Kernel("ragged", lambda: ragged[1,](x, ends, sums, 4, B=64), (x, ends, sums, 4)),
        Kernel("unpacked", lambda: unpacked[1,](w, scales, back, K=64, N=32), (w, scales, back)),
    ]


def other(new: str) -> Callable[[Any], tuple[str, int] | None]:
    """Make the opcode another one: of its name, the words before ``>`` become those behind it."""
    before, after = new.split(">")

    def change(found: Any) -> tuple[str, int] | None:
        name = found.op.name.replace(before.upper(), after.upper())
        opcodes = type(found.op).__members__
        return ("op", opcodes[name].value) if name != found.op.name and name in opcodes else None

    return change


def moved(*fields: str, by: int = 1) -> Callable[[Any], tuple[str, int] | None]:
    """Make the first of these fields larger."""

    def change(found: Any) -> tuple[str, int] | None:
        held = {name: (found._raw >> low & mask, mask) for name, low, mask in _positions(found.__class__)}
        name = next((name for name in fields if name in held), None)
        return None if name is None or held[name][0] + by > held[name][1] else (name, held[name][0] + by)

    return change


NOTHING = "left out"
KINDS: dict[str, tuple[str, Any]] = {
    "a sum is a difference": (r"v_(pk_)?add_f(16|32)", other("add_f>sub_f")),
    "a difference has its operands exchanged": (r"v_sub_f", other("sub_f>subrev_f")),
    "the larger is the smaller": (r"v_max_(num_)?f", other("max_>min_")),
    "a product is a sum": (r"v_mul_f32", other("mul_f32>add_f32")),
    "a shift goes the other way": (r"v_lshlrev_b32", other("lshlrev>lshrrev")),
    "a scalar shift goes the other way": (r"s_lshl_b(32|64)", other("lshl>lshr")),
    "and is or": (r"v_and_b32", other("and_b32>or_b32")),
    "or is exclusive": (r"v_or_b32", other("or_b32>xor_b32")),
    "a whole sum is a difference": (r"v_add_(nc_)?u32", other("add_>sub_")),
    "a scalar sum is a difference": (r"s_add_(i|u|co_i|co_u)32", other("add_>sub_")),
    "less is less or equal": (r"v_cmpx?_(lt|gt)_", other("_lt_>_le_")),
    "greater is greater or equal": (r"v_cmpx?_gt_", other("_gt_>_ge_")),
    "equal is not equal": (r"v_cmpx?_eq_", other("_eq_>_ne_")),
    "a scalar less is less or equal": (r"s_cmp_lt_", other("_lt_>_le_")),
    "a branch is the other way": (r"s_cbranch_scc", other("scc0>scc1")),
    "a branch is the other way round": (r"s_cbranch_scc", other("scc1>scc0")),
    "a branch for no lanes is for some": (r"s_cbranch_execz", other("execz>execnz")),
    "an exponential is a logarithm": (r"v_exp_f32", other("exp>log")),
    "a carry is lost": (r"s_addc_u32|s_add_co_ci_u32", other("addc>add")),
    "a wait is left out": (r"s_wait", NOTHING),
    "a barrier is left out": (r"s_barrier", NOTHING),
    "an instruction of vectors is left out": (r"v_(?!nop)", NOTHING),
    "a scalar instruction is left out": (r"s_(?!nop|wait|endpgm|delay|cbranch|branch|barrier)", NOTHING),
    "a store to the LDS is left out": (r"ds_(write|store)", NOTHING),
    "a load of the LDS is left out": (r"ds_(read|load)", NOTHING),
    "a load is left out": (r"(global|buffer)_load", NOTHING),
    "an address of the LDS is moved": (r"ds_", moved("offset0", by=4)),
    "an address of memory is moved": (r"(global|buffer)_(load|store)", moved("offset", "ioffset", by=4)),
    "a scalar load is moved": (r"s_load", moved("offset", "ioffset", by=8)),
    "the result is in the next register": (r"v_", moved("vdst")),
    "the first source is the next": (r"v_", moved("src0")),
    "the second source is the next": (r"v_", moved("vsrc1", "src1")),
    "a sign is exchanged": (r"v_.*_f32", moved("neg")),
    "lanes are taken by one more": (r"v_", moved("dpp", "dpp_ctrl")),
    "a product has the next factor": (r"v_(mfma|wmma)", moved("src0")),
    "a product has the next sum": (r"v_(mfma|wmma)", moved("src2")),
}


def mutants(program: Program, target: str) -> Iterator[tuple[str, Instruction, Callable[[Instruction], int | None]]]:
    """Yield of each kind some instructions of a kernel, drawn at random, with the edit."""
    family = next(family for prefix, family in FAMILIES.items() if target.startswith(prefix))
    nop = 0xBF800000
    for kind, (pattern, change) in KINDS.items():
        places = [one for one in program.instructions if re.match(pattern, one.name)]
        drawn = random.Random(kind).sample(places, len(places))
        count = 0
        for one in drawn:
            if change == NOTHING:
                bits = sum(nop << 32 * word for word in range(one.size // 4))
            else:
                found = _decoder()(one.raw.to_bytes(32, "little"), family)
                if (new := change(found)) is None:
                    continue
                low, mask = next((low, mask) for name, low, mask in _positions(found.__class__) if name == new[0])
                bits = one.raw & ~(mask << low) | new[1] << low
            yield kind, one, lambda other, one=one, bits=bits: bits if other.address == one.address else None
            count += 1
            if count == DRAWN:
                break


def judged(target: str) -> Iterator[list[Any]]:
    """Yield each mutant with its kernel, its kind, the instruction, and what is found; nothing for the same bits."""
    for kernel in kernels():
        tensors = [(one, one.clone()) for one in kernel.arguments if isinstance(one, torch.Tensor)]
        compiled = kernel.run()
        code = read(compiled.asm["hsaco"])
        whole = Program(code, target)
        for tensor, before in tensors:
            tensor.copy_(before)
        found, right = told(whole, kernel, compiled.metadata)
        assert not found, found
        for kind, one, edit in mutants(whole, target):
            for tensor, before in tensors:
                tensor.copy_(before)
            try:
                mutant = Program(edited(code, whole, edit), target)
                kinds, numbers = told(mutant, kernel, compiled.metadata, limit=LIMIT)
                seen = kinds or ["other numbers"] * (numbers != right)
            except Exception as error:
                seen = [type(error).__name__]
            yield [target, kernel.name, kind, f"{one.address:#x} {one.name}", seen]


def main() -> None:
    """Print what is seen of all mutants on the targets of the command line."""
    for target in sys.argv[1:]:
        torch.manual_seed(1)
        with emulated(target):
            for line in judged(target):
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
