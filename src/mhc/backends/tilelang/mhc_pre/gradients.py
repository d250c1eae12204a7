"""The gradients of ``mhc_pre`` and ``mhc_head``: four programs one after the other (:mod:`.factors`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mhc.backends import Artifact
from mhc.backends.tilelang.kernel import Kernel
from mhc.backends.tilelang.mhc_pre import backward_cpu, backward_gpu
from mhc.backends.tilelang.mhc_pre.factors import columns_of_block, factors_of, gates_of, mixes_of, splits_of
from mhc.backends.tilelang.mhc_pre.forward_cpu import GROUP
from mhc.backends.tilelang.mhc_pre.operands import PARAMETERS, given_by, work_of
from mhc.backends.tilelang.program import (
    Operands,
    Program,
    artifact,
    code_of,
    kind_of,
    run_on_cpu,
    run_on_gpu,
    run_per_token,
    target_of,
)
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads
from mhc.ops.read import ReadSpec

_BY_TOKEN = (("tokens", "x"), ("rows", "factors"))
_BY_SPLIT = (("tokens", "x"), ("splits", "factors"), ("share", "factors", 1), ("blocks", "sums", 1))
FACTORS = Program(backward_gpu.factors, backward_cpu.factors, _BY_TOKEN)
GRAD_X = Program(backward_gpu.grad_x, backward_cpu.grad_x, _BY_TOKEN)
SUMS = Program(backward_gpu.sums, backward_cpu.sums, _BY_SPLIT)
TOTAL = Program(backward_gpu.total, backward_cpu.total, (("splits", "sums"), ("blocks", "sums", 1)))
PROGRAMS = (FACTORS, GRAD_X, SUMS, TOTAL)

TOTALS = ("grad_phi", "grad_alpha", "grad_bias", "grad_gamma")


class Gradients(Kernel):
    """The gradients of one of the two operators.

    ``grads`` returns the gradients of the forward's outputs by the names of the kernels' parameters; ``lacking`` names
    the gradients that the operator lacks.
    """

    def __init__(self, grads: Callable[[Any], Operands], lacking: tuple[str, ...] = ()) -> None:
        self._grads = grads
        self._shared = (*PARAMETERS, *lacking)

    def run(
        self,
        inputs: MhcPreBackwardInputs | MhcHeadBackwardInputs,
        out: MhcPreGrads | MhcHeadGrads,
        target: str | None = None,
    ) -> None:
        """Compile for ``target``, or for the device of the inputs, and run the programs that ``out`` needs.

        Raises:
            NotSupportedError: there are too many streams.
        """
        spec, tokens = self.admitted(inputs.spec, target), inputs.x.shape[0]
        target = target or target_of(inputs.x.device)
        splits, share = splits_of(spec, tokens)
        factors = inputs.phi.new_empty(splits, share, factors_of(spec).size)
        given, grads = given_by(inputs), self._grads(inputs)
        by_token = {"factors": factors.view(splits * share, -1)}
        x, phi, alpha, bias, gamma = ({name: value} for name, value in given.items())
        kept = {"m": inputs.m, "r": inputs.r}
        operands = {**x, **alpha, **bias, **kept, **grads, **by_token}
        run_per_token(FACTORS, spec, target, operands, ("factors",), self._shared, spec.width, together=PROGRAMS)
        if out.x is not None:
            operands = {**x, **phi, **gamma, "grad_h_in": grads["grad_h_in"], **by_token}
            operands["grad_x"] = out.x.view(tokens, -1)
            run_per_token(GRAD_X, spec, target, operands, ("grad_x",), PARAMETERS, work_of(spec), GROUP, PROGRAMS)
        if any(gradient is not None for gradient in out[1:]):
            _sum(spec, target, given, factors, out)

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``, ``gfx942``, ``x86-64-v3`` or another of their kinds.

        Raises:
            NotSupportedError: there are too many streams.
        """
        return artifact(PROGRAMS, self.admitted(spec, target), target)

    def code(self, spec: Any, target: str) -> Artifact | None:
        """Return the code that :meth:`run` has compiled for a GPU; on a CPU it has none of its own."""
        return code_of(PROGRAMS, self.admitted(spec, target), target)


def _sum(spec: ReadSpec, target: str, given: Operands, factors: torch.Tensor, out: MhcPreGrads | MhcHeadGrads) -> None:
    """Run the programs for the gradients that are sums over tokens: for all columns of x where phi or gamma need them.

    The gradients of alpha and bias come with the gradients for the first columns.
    """
    phi, gamma, columns = given["phi"], given["gamma"], columns_of_block(spec)
    blocks = 1 if out.phi is None and out.gamma is None else -(-spec.width // columns)
    splits, mixes = factors.shape[0], mixes_of(spec)
    partial = {
        "sums": phi.new_empty(splits, blocks, mixes, columns),
        "small": phi.new_empty(splits, mixes + gates_of(spec)),
    }
    by_split = {"x": given["x"], "factors": factors, **partial}
    total = {
        "phi": phi,
        "gamma": gamma,
        **partial,
        "grad_phi": torch.empty_like(phi) if out.phi is None else out.phi,
        "grad_alpha": torch.empty_like(given["alpha"]) if out.alpha is None else out.alpha,
        "grad_bias": torch.empty_like(given["bias"]) if out.bias is None else out.bias,
        "grad_gamma": torch.empty_like(gamma) if out.gamma is None else out.gamma.view(-1),
    }
    if kind_of(target) == "c":
        run_on_cpu(SUMS, spec, target, _calls(by_split), PROGRAMS)
        run_on_cpu(TOTAL, spec, target, [total], PROGRAMS)
    else:
        run_on_gpu(SUMS, spec, target, by_split, written=("sums", "small"))
        run_on_gpu(TOTAL, spec, target, total, written=TOTALS)


def _calls(by_split: Operands) -> list[Operands]:
    """Return the operands of each split: its own tokens of x, and its own row of the others."""
    share = by_split["factors"].shape[1]
    return [
        {name: value[split : split + 1] for name, value in by_split.items()}
        | {"x": by_split["x"][split * share : (split + 1) * share]}
        for split in range(by_split["factors"].shape[0])
    ]
