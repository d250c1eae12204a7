"""``mhc_pre`` and its gradients in TileLang, on TileLang 0.1.8 and 0.1.15.

The forward is one kernel for CUDA and HIP and one for the CPU; the gradients are three of each (:mod:`.factors`).
TileLang generates the source; nvcc, hipcc or the C++ compiler compile it.
"""

from __future__ import annotations

from typing import Any

from mhc.backends import Artifact, combined
from mhc.backends.tilelang.kernel import TokenKernel
from mhc.backends.tilelang.mhc_pre import backward_cpu, backward_gpu, forward_cpu, forward_gpu
from mhc.backends.tilelang.mhc_pre.factors import factors_of
from mhc.backends.tilelang.program import (
    Operands,
    Program,
    artifact,
    kind_of,
    run_on_cpu,
    run_on_gpu,
    run_per_token,
    target_of,
)
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreInputs, MhcPreOutputs, MhcPreSpec

FACTORS = Program(backward_gpu.factors, backward_cpu.factors, (("tokens", "x"),))
COLUMNS = Program(backward_gpu.columns, backward_cpu.columns, (("tokens", "x"), ("splits", "sums")))
TOTAL = Program(backward_gpu.total, backward_cpu.total, (("splits", "sums"),))

# The operands that all tokens share.
PARAMETERS = ("phi", "alpha", "bias", "gamma")

# The tokens of a split, at least, and the splits, at most: each has sums of phi's size.
TOKENS_OF_SPLIT = 32
MAX_SPLITS = 16


def _inputs(inputs: MhcPreInputs | MhcPreBackwardInputs) -> Operands:
    """Return the forward's inputs. The kernels want gamma to be a tensor; those compiled without it do not read it."""
    return {
        "x": inputs.x.view(inputs.x.shape[0], -1),
        "phi": inputs.phi,
        "alpha": inputs.alpha,
        "bias": inputs.bias,
        "gamma": inputs.alpha[:1] if inputs.gamma is None else inputs.gamma.view(-1),
    }


def _operands(inputs: MhcPreInputs, out: MhcPreOutputs) -> Operands:
    h_res = out.h_res.view(inputs.x.shape[0], -1)
    return {**_inputs(inputs), "h_in": out.h_in, "h_post": out.h_post, "h_res": h_res}


def _work(spec: MhcPreSpec) -> int:
    return spec.width * spec.mixes


class _Gradients:
    """The gradients: ``factors`` by tokens, ``columns`` by splits of the tokens, and ``total`` over the splits."""

    def run(self, inputs: MhcPreBackwardInputs, out: MhcPreGrads, target: str | None = None) -> None:
        """Compile for ``target``, or for the device of the inputs, and run."""
        spec, tokens = inputs.spec, inputs.x.shape[0]
        target = target or target_of(inputs.x.device)
        share = -(-tokens // min(MAX_SPLITS, -(-tokens // TOKENS_OF_SPLIT)))
        splits = -(-tokens // share)
        given = _inputs(inputs)
        factors = inputs.alpha.new_empty(tokens, factors_of(spec))
        sums = inputs.alpha.new_empty(splits, spec.mixes * spec.width)
        small = inputs.alpha.new_empty(splits, 2 * spec.mixes)
        grads = {
            "grad_h_in": inputs.grad_h_in,
            "grad_h_post": inputs.grad_h_post,
            "grad_h_res": inputs.grad_h_res.view(tokens, -1),
        }
        operands = {**given, **grads, "factors": factors}
        run_per_token(FACTORS, spec, target, operands, ("factors",), PARAMETERS, _work(spec), forward_cpu.GROUP)
        columns = {
            "x": given["x"],
            "phi": given["phi"],
            "gamma": given["gamma"],
            "grad_h_in": inputs.grad_h_in,
            "factors": factors,
            "grad_x": out.x.view(tokens, -1),
            "sums": sums,
            "small": small,
        }
        total = {
            "phi": given["phi"],
            "gamma": given["gamma"],
            "sums": sums,
            "small": small,
            "grad_phi": out.phi,
            "grad_alpha": out.alpha,
            "grad_bias": out.bias,
            "grad_gamma": inputs.alpha.new_empty(1) if out.gamma is None else out.gamma.view(-1),
        }
        if kind_of(target) == "c":
            run_on_cpu(COLUMNS, spec, target, _split(columns, share))
            run_on_cpu(TOTAL, spec, target, [total])
        else:
            run_on_gpu(COLUMNS, spec, target, columns, written=("grad_x", "sums", "small"))
            run_on_gpu(TOTAL, spec, target, total, written=("grad_phi", "grad_alpha", "grad_bias", "grad_gamma"))

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds."""
        return combined([artifact(program, spec, target) for program in (FACTORS, COLUMNS, TOTAL)])


def _split(columns: Operands, share: int) -> list[Operands]:
    """Return the operands of each split: ``share`` tokens of the tensors by token, and a row of the sums."""
    per_token = ("x", "grad_h_in", "factors", "grad_x")
    return [
        columns
        | {name: columns[name][split * share : (split + 1) * share] for name in per_token}
        | {name: columns[name][split : split + 1] for name in ("sums", "small")}
        for split in range(columns["sums"].shape[0])
    ]


FORWARD = TokenKernel(
    Program(forward_gpu.forward, forward_cpu.forward, symbols=(("tokens", "x"),)),
    _operands,
    written=("h_in", "h_post", "h_res"),
    work=_work,
    shared=PARAMETERS,
    group=forward_cpu.GROUP,
)
BACKWARD = _Gradients()
