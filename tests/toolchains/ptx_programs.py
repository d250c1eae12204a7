"""Programs of the tests of the emulator of PTX, run in Triton's environment: each prints what it found, as JSON.

The kernels are the same as for the emulator of AMD's GPUs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import gfx_programs as common
import torch
import triton.language as tl
from emulated_programs import run_all

from gpu_emulators.nvidia import Memory, Program
from gpu_emulators.nvidia.triton_driver import emulated

TARGETS = ("sm_80", "sm_90")
_KINDS = {
    "barrier": r"bar\.sync",
    "copy's wait": r"cp\.async\.wait_group",
    "product's wait": r"wgmma\.wait_group.*",
    "load": r"ld\.(global|shared).*|ldmatrix.*",
}


def wide_products(target: str) -> dict[str, Any]:
    """Multiply matrices that are large enough for wgmma, which reads its factors from shared memory."""
    errors = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        a, b = common.normal(64, 128, dtype=dtype), common.normal(128, 64, dtype=dtype)
        out = torch.full((64, 64), float("nan"))
        common.dot[(1,)](a, b, out, 128, M=64, N=64, B=32, num_warps=4)
        errors[str(dtype)[6:]] = common.relative(out, a.double() @ b.double())
    return {"errors": errors}


def narrow_sums(target: str) -> dict[str, Any]:
    """Add products up in fp16: Triton unpacks such a sum in front of the wait for it."""
    a, b = common.normal(64, 128, dtype=torch.float16), common.normal(128, 64, dtype=torch.float16)
    out = torch.full((64, 64), float("nan"), dtype=torch.float16)
    with common.Kept(Program) as kept:
        common.dot[(1,)](a, b, out, 128, M=64, N=64, B=32, SUM=tl.float16, num_warps=4)
    [(program, grid, threads, arguments, shared)] = kept.launches
    waits = [one for one in program.instructions if re.fullmatch(_KINDS["product's wait"], one.opcode)]
    mutants = [program.without(one.number).launch(grid, threads, arguments, shared=shared) for one in waits]
    found = [sorted({one.kind for one in ran.findings}) for ran in mutants]
    return {"error": common.relative(out, a.double() @ b.double()), "without a wait": found}


def mutants(target: str) -> dict[str, Any]:
    """Leave out waits, barriers and loads of three kernels, each in turn, and count which findings tell it."""
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in _KINDS}
    with common.Kept(Program) as kept:
        common.softmaxes(target)
        wide_products(target)
    for program, grid, threads, arguments, shared in kept.launches[:2]:
        arrays = [one for one in arguments if isinstance(one, Memory)]
        assert arrays
        for one in program.instructions:
            kind = next((kind for kind, pattern in _KINDS.items() if re.fullmatch(pattern, one.opcode)), None)
            if kind is None:
                continue
            counts[kind]["mutants"] += 1
            ran = program.without(one.number).launch(grid[:1], threads, arguments, shared=shared, limit=10**6)
            counts[kind].update({found.kind for found in ran.findings} or {"nothing"})
    return counts


def named(target: str) -> dict[str, Any]:
    """Ask for an instruction that is not known."""
    text = (
        ".version 8.7\n.target sm_100a\n.visible .entry k()\n{\n.loc 1 7 0\ntcgen05.fence::after_thread_sync;\nret;\n}"
    )
    try:
        Program('.file 1 "a/k.py"\n' + text)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {}


PROGRAMS: tuple[tuple[Callable[[str], dict[str, Any]], tuple[str, ...]], ...] = (
    *((program, TARGETS) for program in (common.sums, common.softmaxes, common.products, wide_products, narrow_sums)),
    *((program, TARGETS[:1]) for program in (common.atomics, common.integers, common.quotients, common.repeated)),
    (common.outside, TARGETS[:1]),
    (named, TARGETS[:1]),
    (mutants, TARGETS),
)


def main() -> None:
    run_all(PROGRAMS, emulated)


if __name__ == "__main__":
    sys.exit(main())
