"""Gradient of ``sinkhorn`` in TileLang: one kernel for CUDA and HIP, one for the CPU."""

from __future__ import annotations

from functools import cache

from mhc.backends import Artifact
from mhc.backends.tilelang import sinkhorn_kernel
from mhc.backends.tilelang.program import Program, artifact, run_per_token, target_of
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads, SinkhornSpec

PROGRAM = Program(sinkhorn_kernel.gpu_backward, sinkhorn_kernel.cpu_backward, symbols=(("tokens", "logits"),))


def run(inputs: SinkhornBackwardInputs, out: SinkhornGrads, target: str | None = None) -> None:
    """Compile for ``target``, or for the device of the inputs, and run; ``out`` is overwritten."""
    spec, (tokens, streams, _) = inputs.spec, inputs.logits.shape
    operands = {
        "logits": inputs.logits.view(tokens, streams**2),
        "grad_matrix": inputs.grad_matrix.view(tokens, streams**2),
        "grad_logits": out.logits.view(tokens, streams**2),
    }
    # Divisions, which take longer than what the work of other kernels is counted in.
    work = 40 * spec.iterations * streams**2
    target = target or target_of(inputs.logits.device)
    run_per_token(PROGRAM, spec, target, operands, written=("grad_logits",), work=work)


@cache
def compile(spec: SinkhornSpec, target: str) -> Artifact:
    """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds."""
    return artifact(PROGRAM, spec, target)
