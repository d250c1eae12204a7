"""Run kernels with the faults of public reports on emulated GPUs, and print what the emulator says: prints JSON.

Each kernel is our own, made from the description of the fault alone, and stands next to a right one. Faults in single
instructions (``gfx_mutants``) run in the same process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from gfx_mutants import instructions
from gfx_programs import normal

from gpu_emulators.amd import Memory, Program
from gpu_emulators.amd.triton_driver import FoundError, emulated

TARGETS = ("gfx942", "gfx1100")


@triton.jit
def stored_by_lane(sums, o, n, is_right: tl.constexpr):
    """Store the sum of each row: 16 rows for 64 lanes. The fault takes the lane for the row (ROCm/aiter 3033)."""
    i = tl.arange(0, 256)
    first, lane = i // 64 * 16, i % 64
    place = first + (lane % 16 if is_right else lane)
    tl.store(o + place, tl.load(sums + first + lane % 16), place < n)


@triton.jit
def zeroed(x, o, is_right: tl.constexpr, B: tl.constexpr):
    """Add to an output that one workgroup sets to zero: no barrier holds the others (vllm 30719)."""
    i = tl.arange(0, B)
    if not is_right:
        if tl.program_id(0) == 0:
            tl.store(o + i, tl.zeros((B,), tl.float32))
        tl.debug_barrier()
    tl.atomic_add(o + i, tl.load(x + tl.program_id(0) * B + i))


@triton.jit
def chained(a, b, c, d, o, K, N: tl.constexpr, B: tl.constexpr):
    """Add two products to one accumulator in a loop (triton 10821: wrong on sm_103)."""
    m, n, k = tl.arange(0, N), tl.arange(0, N), tl.arange(0, B)
    total = tl.zeros((N, N), tl.float32)
    for at in range(0, K, B):
        left, right = m[:, None] * K + at + k[None], (at + k[:, None]) * N + n[None]
        total = tl.dot(tl.load(a + left), tl.load(b + right), total)
        total = tl.dot(tl.load(c + left), tl.load(d + right), total)
    tl.store(o + m[:, None] * N + n[None], total)


@triton.jit
def product(a, b, o, K: tl.constexpr, M: tl.constexpr, B: tl.constexpr):
    """Multiply matrices of fp32 with eight warps, in two halves that take turns (triton 11696: wrong on gfx942)."""
    m, k = tl.arange(0, M), tl.arange(0, B)
    total = tl.zeros((M, M), tl.float32)
    for at in range(0, K, B):
        left, right = tl.load(a + m[:, None] * K + at + k[None]), tl.load(b + (at + k[:, None]) * M + m[None])
        total += tl.dot(left, right, input_precision="ieee")
    tl.store(o + m[:, None] * M + m[None], total)


@triton.jit
def handed_on(parts, flags, o, B: tl.constexpr):
    """Wait for the workgroup before this one, and read what it wrote: an atomic orders the two."""
    p, i = tl.program_id(0), tl.arange(0, B)
    tl.store(parts + p * B + i, i + p)
    tl.debug_barrier()
    tl.atomic_xchg(flags + p, 1)
    if p > 0:
        while tl.atomic_cas(flags + p - 1, 1, 1) != 1:
            pass
        tl.store(o + p * B + i, tl.load(parts + (p - 1) * B + i))


@triton.jit
def turned(x, B: tl.constexpr):
    """Change numbers in place. On gfx942 half of the waves repeat the others' work, and store nothing."""
    i = tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(x + B + i)
    tl.store(x + i, a - b)
    tl.store(x + B + i, a + b)


@triton.jit
def shifted(x, B: tl.constexpr):
    """Write where the next workgroup reads: in place, with nothing that orders the two."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + B + i, tl.load(x + i) + 1)


@triton.jit
def tiles(x, o, n, width, R: tl.constexpr, C: tl.constexpr):
    """Store four registers a lane several times, and compute the next address in one of them."""
    r, c = tl.arange(0, R), tl.arange(0, C)
    places, mask = r[:, None] * width + c[None], r[:, None] < n
    tl.store(o + places, tl.load(x + places, mask) * 2, mask)


def found(run: Callable[[], object]) -> list[str]:
    try:
        run()
    except FoundError as error:
        return [f"{one.kind}: {one}" for one in error.findings]
    return []


def lanes(_: str) -> dict[str, Any]:
    sums = normal(64)
    told = {}
    for is_right in (True, False):
        o = torch.zeros(64)
        told[str(is_right)] = found(lambda o=o, is_right=is_right: stored_by_lane[1,](sums, o, 64, is_right))
        told[f"{is_right} same"] = torch.equal(o, sums)
    return told


def zeroes(_: str) -> dict[str, Any]:
    x = normal(3, 128)
    right, wrong = torch.zeros(128), torch.full((128,), 7.0)
    return {
        "True": found(lambda: zeroed[3,](x, right, True, 128)),
        "False": found(lambda: zeroed[3,](x, wrong, False, 128)),
        "False same": torch.allclose(wrong, x.sum(0), atol=1e-6),
    }


def dots(_: str) -> dict[str, Any]:
    (a, c), (b, d) = normal(2, 64, 128, dtype=torch.bfloat16), normal(2, 128, 64, dtype=torch.bfloat16)
    o = torch.empty(64, 64)
    told = found(lambda: chained[1,](a, b, c, d, o, 128, 64, 32))
    right = a.double() @ b.double() + c.double() @ d.double()
    return {"found": told, "error": float((o - right).abs().max() / right.abs().max())}


def turns(_: str) -> dict[str, Any]:
    """Return what is said of a product in two halves that take turns, and of one in which all go on together."""
    told = {}
    for name, size, warps in (("turns", 128, 8), ("together", 64, 4)):
        sizes = (3 * size // 2, size, size // 2)
        a, b, o = normal(size, sizes[0]), normal(sizes[0], size), torch.empty(size, size)
        told[name] = found(lambda given=(a, b, o, *sizes), n=warps: product[1,](*given, num_warps=n, num_stages=2))
        told[f"{name} same"] = torch.allclose(o, a @ b, atol=1e-4)
    return told


def order(_: str) -> dict[str, Any]:
    parts, o = torch.zeros(2, 4, 64, dtype=torch.int32)
    return {"found": found(lambda: handed_on[4,](parts, torch.zeros(4, dtype=torch.int32), o, 64))}


def in_place(_: str) -> dict[str, Any]:
    """Return what is said of a launch that repeats work, and of workgroups that read what others have written."""
    x = normal(4 * 128)
    return {"turned": found(lambda: turned[1,](x, 64)), "shifted": found(lambda: shifted[3,](x, 128))}


def late(target: str) -> dict[str, Any]:
    """Leave out each wait state in turn, as a compiler did that miscounted them (triton 10711, llvm 203770)."""
    x, o = normal(64, 64), torch.empty(64, 64)
    compiled = tiles[1,](x, o, 61, 64, 64, 64)
    program = Program(compiled.asm["hsaco"], target, "tiles")
    arguments: list[Memory | bytes] = [
        *(Memory(name, one.data_ptr(), one.nbytes) for name, one in (("x", x), ("o", o))),
        *(size.to_bytes(4, "little") for size in (61, 64)),
        *[bytes(8)] * 2,
    ]
    states = [one.address for one in program.instructions if one.name == "s_nop"]
    kinds = [
        sorted({one.kind for one in program.without(address).launch((1,), 256, arguments).findings})
        for address in states
    ]
    return {"whole": [str(one) for one in program.launch((1,), 256, arguments).findings], "without": kinds}


def main() -> None:
    for program in (lanes, zeroes, dots, turns, order, in_place, late, instructions):
        for target in ("gfx942",) if program in (turns, late) else TARGETS:
            with emulated(target):
                print(json.dumps([program.__name__, target, program(target)]))


if __name__ == "__main__":
    sys.exit(main())
