"""``mhc_pre`` in TileLang: one kernel for CUDA and HIP, one for the CPU, on TileLang 0.1.8 and 0.1.15.

TileLang generates the source; nvcc, hipcc or the C++ compiler compile it.
"""

from __future__ import annotations

from functools import cache

from mhc.backends import Artifact
from mhc.backends.tilelang import mhc_pre_cpu, mhc_pre_gpu
from mhc.backends.tilelang.program import Program, artifact, run_per_token, target_of
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

PROGRAM = Program(mhc_pre_gpu.forward, mhc_pre_cpu.forward, symbols=(("tokens", "x"),))


def run(inputs: MhcPreInputs, out: MhcPreOutputs, target: str | None = None) -> None:
    """Compile for ``target``, or for the device of the inputs, and run; ``out`` is overwritten."""
    spec, tokens = inputs.spec, inputs.x.shape[0]
    # By the names, in the order and in the shapes of the kernels' parameters, which want a gamma to be a tensor; a
    # kernel that was compiled without one does not read it.
    operands = {
        "x": inputs.x.view(tokens, spec.width),
        "phi": inputs.phi,
        "alpha": inputs.alpha,
        "bias": inputs.bias,
        "gamma": inputs.alpha[:1] if inputs.gamma is None else inputs.gamma.view(-1),
        "h_in": out.h_in,
        "h_post": out.h_post,
        "h_res": out.h_res.view(tokens, spec.streams**2),
    }
    run_per_token(
        PROGRAM,
        spec,
        target or target_of(inputs.x.device),
        operands,
        written=out._fields,
        shared=("phi", "alpha", "bias", "gamma"),
        work=spec.width * spec.mixes,
        group=mhc_pre_cpu.GROUP,
    )


@cache
def compile(spec: MhcPreSpec, target: str) -> Artifact:
    """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds.

    An AMD target gives a code object where there is a hipcc, and source where there is none.
    """
    return artifact(PROGRAM, spec, target)
