"""Gradients of ``mhc_post`` in TileLang: one kernel for CUDA and HIP, one for the CPU."""

from __future__ import annotations

from functools import cache

from mhc.backends import Artifact
from mhc.backends.tilelang import mhc_post_cpu, mhc_post_gpu
from mhc.backends.tilelang.program import Program, artifact, run_per_token, target_of
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostSpec

PROGRAM = Program(mhc_post_gpu.backward, mhc_post_cpu.backward, symbols=(("tokens", "x"),))


def run(inputs: MhcPostBackwardInputs, out: MhcPostGrads, target: str | None = None) -> None:
    """Compile for ``target``, or for the device of the inputs, and run; ``out`` is overwritten."""
    tokens, streams, hidden = inputs.x.shape
    wide = streams * hidden
    operands = {
        "x": inputs.x.view(tokens, wide),
        "y": inputs.y,
        "h_post": inputs.h_post,
        "h_res": inputs.h_res.view(tokens, streams**2),
        "grad_out": inputs.grad_out.view(tokens, wide),
        "grad_x": out.x.view(tokens, wide),
        "grad_y": out.y,
        "grad_h_post": out.h_post,
        "grad_h_res": out.h_res.view(tokens, streams**2),
    }
    target = target or target_of(inputs.x.device)
    run_per_token(
        PROGRAM,
        inputs.spec,
        target,
        operands,
        written=("grad_x", "grad_y", "grad_h_post", "grad_h_res"),
        work=2 * wide * streams,
    )


@cache
def compile(spec: MhcPostSpec, target: str) -> Artifact:
    """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds."""
    return artifact(PROGRAM, spec, target)
