"""Gradients of ``mhc_pre`` in TileLang: three kernels for CUDA and HIP, three for the CPU."""

from __future__ import annotations

from functools import cache

from mhc.backends import Artifact
from mhc.backends.tilelang import mhc_pre_backward_cpu, mhc_pre_backward_gpu
from mhc.backends.tilelang.mhc_pre_cpu import GROUP
from mhc.backends.tilelang.mhc_pre_factors import factors_of
from mhc.backends.tilelang.program import (
    Program,
    artifact,
    combined,
    kind_of,
    run_on_cpu,
    run_on_gpu,
    run_per_token,
    target_of,
)
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreSpec

FACTORS = Program(mhc_pre_backward_gpu.factors, mhc_pre_backward_cpu.factors, (("tokens", "x"),))
COLUMNS = Program(mhc_pre_backward_gpu.columns, mhc_pre_backward_cpu.columns, (("tokens", "x"), ("splits", "sums")))
TOTAL = Program(mhc_pre_backward_gpu.total, mhc_pre_backward_cpu.total, (("splits", "sums"),))

# The tokens of a split, at least, and the splits, at most: each has sums of phi's size.
TOKENS_OF_SPLIT = 32
MAX_SPLITS = 16


def run(inputs: MhcPreBackwardInputs, out: MhcPreGrads, target: str | None = None) -> None:
    """Compile for ``target``, or for the device of the inputs, and run; ``out`` is overwritten."""
    spec, tokens = inputs.spec, inputs.x.shape[0]
    target = target or target_of(inputs.x.device)
    share = -(-tokens // min(MAX_SPLITS, -(-tokens // TOKENS_OF_SPLIT)))
    splits = -(-tokens // share)
    x = inputs.x.view(tokens, spec.width)
    # The kernels want a gamma to be a tensor; those that were compiled without one neither read nor write it.
    gamma = inputs.alpha[:1] if inputs.gamma is None else inputs.gamma.view(-1)
    grad_gamma = inputs.alpha.new_empty(1) if out.gamma is None else out.gamma.view(-1)
    factors = inputs.alpha.new_empty(tokens, factors_of(spec))
    sums = inputs.alpha.new_empty(splits, spec.mixes * spec.width)
    small = inputs.alpha.new_empty(splits, 2 * spec.mixes)

    run_per_token(
        FACTORS,
        spec,
        target,
        {
            "x": x,
            "phi": inputs.phi,
            "alpha": inputs.alpha,
            "bias": inputs.bias,
            "gamma": gamma,
            "grad_h_in": inputs.grad_h_in,
            "grad_h_post": inputs.grad_h_post,
            "grad_h_res": inputs.grad_h_res.view(tokens, spec.streams**2),
            "factors": factors,
        },
        written=("factors",),
        shared=("phi", "alpha", "bias", "gamma"),
        work=spec.width * spec.mixes,
        group=GROUP,
    )
    columns = {
        "x": x,
        "phi": inputs.phi,
        "gamma": gamma,
        "grad_h_in": inputs.grad_h_in,
        "factors": factors,
        "grad_x": out.x.view(tokens, spec.width),
        "sums": sums,
        "small": small,
    }
    total = {
        "phi": inputs.phi,
        "gamma": gamma,
        "sums": sums,
        "small": small,
        "grad_phi": out.phi,
        "grad_alpha": out.alpha,
        "grad_bias": out.bias,
        "grad_gamma": grad_gamma,
    }
    if kind_of(target) != "c":
        run_on_gpu(COLUMNS, spec, target, columns, written=("grad_x", "sums", "small"))
        run_on_gpu(TOTAL, spec, target, total, written=("grad_phi", "grad_alpha", "grad_bias", "grad_gamma"))
        return
    per_token = ("x", "grad_h_in", "factors", "grad_x")
    calls = [
        columns
        | {name: columns[name][split * share : (split + 1) * share] for name in per_token}
        | {"sums": sums[split : split + 1], "small": small[split : split + 1]}
        for split in range(splits)
    ]
    run_on_cpu(COLUMNS, spec, target, calls)
    run_on_cpu(TOTAL, spec, target, [total])


@cache
def compile(spec: MhcPreSpec, target: str) -> Artifact:
    """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds."""
    return combined([artifact(program, spec, target) for program in (FACTORS, COLUMNS, TOTAL)])
