"""``mhc_post`` in TileLang: one kernel for CUDA and HIP, one for the CPU."""

from __future__ import annotations

from functools import cache

from mhc.backends import Artifact
from mhc.backends.tilelang import mhc_post_cpu, mhc_post_gpu
from mhc.backends.tilelang.program import Program, artifact, run_per_token, target_of
from mhc.ops.mhc_post import MhcPostInputs, MhcPostOutputs, MhcPostSpec

PROGRAM = Program(mhc_post_gpu.forward, mhc_post_cpu.forward, symbols=(("tokens", "x"),))


def run(inputs: MhcPostInputs, out: MhcPostOutputs, target: str | None = None) -> None:
    """Compile for ``target``, or for the device of the inputs, and run; ``out`` is overwritten."""
    tokens, streams, hidden = inputs.x.shape
    wide = streams * hidden
    operands = {
        "x": inputs.x.view(tokens, wide),
        "y": inputs.y,
        "h_post": inputs.h_post,
        "h_res": inputs.h_res.view(tokens, streams**2),
        "out": out.out.view(tokens, wide),
    }
    target = target or target_of(inputs.x.device)
    run_per_token(PROGRAM, inputs.spec, target, operands, written=("out",), work=wide * streams)


@cache
def compile(spec: MhcPostSpec, target: str) -> Artifact:
    """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds."""
    return artifact(PROGRAM, spec, target)
