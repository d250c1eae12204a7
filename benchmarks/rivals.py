"""The rivals of the kernels that have the operators of this package: eager PyTorch and torch.compile."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol

import torch

from kernel_matrix.tools.bench.inside.protocol import AbsentError
from mhc.backends import load
from mhc.backends.reference.kernel import full_precision, write
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostOutputs
from mhc.ops.mhc_pre import MhcPreAddingInputs, MhcPreGrads

EAGER, COMPILE, AUTOTUNE, APART = "eager", "compile", "compile-max-autotune", "apart"
_BACKENDS = {EAGER: "reference", COMPILE: "inductor"}
NO_GRAPHS = "max-autotune-no-cudagraphs"  # the clock makes graphs of all contenders by itself


class Kernel(Protocol):
    """One operator in one direction."""

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None: ...


def kernel(name: str, op: str, direction: str) -> Kernel:
    """Return the kernel of a contender that has the operators of this package.

    Raises:
        AbsentError: it does not have this one.
        ImportError: its toolchain does not import.
    """
    if name == AUTOTUNE:
        return autotuned(op, direction)
    if name == APART:
        return apart(op, direction)
    try:
        return load(_BACKENDS.get(name, name), op, direction)
    except LookupError as error:
        raise AbsentError(str(error)) from None
    except ImportError as error:
        error.stage = "import"  # type: ignore[attr-defined]
        raise


@functools.cache
def autotuned(op: str, direction: str) -> Autotuned:
    """Return the equations of the reference through ``torch.compile`` that tries several kernels."""
    equations: Any = load("reference", op, direction)
    return Autotuned(equations.equations)


def compiled(function: Callable[..., Any], mode: str | None) -> Callable[..., Any]:
    """Return a function through ``torch.compile``, however many shapes it is compiled for."""
    made = torch.compile(function, fullgraph=True, dynamic=False, mode=mode)

    def run(*inputs: Any) -> Any:
        with torch._dynamo.config.patch(recompile_limit=1024):
            return made(*inputs)

    return run


class Autotuned:
    """Equations through ``torch.compile`` with the mode ``max-autotune``."""

    def __init__(self, equations: Any) -> None:
        self._compiled = compiled(equations, NO_GRAPHS)

    def run(self, inputs: Any, out: Any, _: str | None = None) -> None:
        """Compute the operator and write every element of ``out``."""
        with full_precision(inputs[0].device):
            results = self._compiled(*inputs)
        write(results, out)


def apart(op: str, direction: str) -> Apart:
    """Return what ``mhc_post_pre`` is a fusion of.

    Raises:
        AbsentError: the operator is another one, or there is no GPU for Triton.
    """
    if op != "mhc_post_pre" or not torch.cuda.is_available():
        raise AbsentError("Triton's mhc_post and mhc_pre in turn are a rival of mhc_post_pre on a GPU alone")
    return Apart(direction)


class Apart:
    """Triton's kernels of ``mhc_post`` and ``mhc_pre`` in turn, as a user runs them who has not the fusion.

    Backward, that of ``mhc_pre`` adds the gradient that the streams have from elsewhere, and the sum is in x's dtype.
    """

    def __init__(self, direction: str) -> None:
        self._forward = direction == "forward"
        self._post, self._pre = (load("triton", op, direction) for op in ("mhc_post", "mhc_pre"))

    def run(self, inputs: Any, out: Any, _: str | None = None) -> None:
        """Compute both operators and write every element of ``out``."""
        if self._forward:
            self._post.run(inputs.post, MhcPostOutputs(out.out))
            self._pre.run(inputs.pre(out.out), out.pre)
            return
        between = torch.empty_like(inputs.x)
        self._pre.run(MhcPreAddingInputs.of(inputs.pre, inputs.grad_out), MhcPreGrads(between, *out[4:]))
        self._post.run(MhcPostBackwardInputs(*inputs[:4], between), MhcPostGrads(*out[:4]))
