"""The conformance suite kills every mutant: faults that kernels really had, and similar ones, put into the reference.

A mutant is an edit of the reference's source, or of the gradients that it returns. The suite kills it if at least one
case of the list below fails for it. The reference itself passes them all.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from conforming import conform
from loops import at_least

import kernels
from draws import PARAMETERS
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.journal import Journal
from mhc.backends import load
from mhc.backends.reference import read
from mhc.backends.reference.kernel import Kernel

CASES = [
    {
        "tokens": tokens,
        "streams": streams,
        "hidden": 40,
        "dtype": dtype,
        "gamma": True,
        "scale": scale,
        "seed": 0,
        "precision": precision,
        "form": form,
    }
    for tokens, streams, dtype, scale, precision, form in [
        (7, 4, "fp32", 1, "fp32", "paper"),
        (7, 4, "fp32", 0.1, "fp32", "paper"),
        (7, 4, "fp32", 10, "fp32", "paper"),
        (7, 4, "fp32", 10, "tf32", "deepseek"),
        (1, 3, "fp32", 1, "tf32", "paper"),
        (7, 4, "bf16", 1, "fp32", "paper"),
    ]
]


@dataclass(frozen=True)
class Mutant:
    """``old`` becomes ``new`` in the reference's equations, or ``spoil`` changes what they return.

    ``shared`` is the function that is edited where the text is not in the equations of the operator alone.
    """

    name: str
    op: str
    direction: str
    old: str = ""
    new: str = ""
    spoil: Callable[[Any, Any], Any] | None = None
    shared: Callable[..., Any] | None = None


def forward(name: str, op: str, old: str, new: str) -> Mutant:
    return Mutant(name, op, "forward", old, new)


def backward(name: str, op: str, spoil: Callable[[Any, Any], Any]) -> Mutant:
    return Mutant(name, op, "backward", spoil=spoil)


def edit(name: str, op: str, old: str, new: str) -> Mutant:
    return Mutant(name, op, "backward", old, new)


def forward_read(name: str, op: str, old: str, new: str) -> Mutant:
    return Mutant(name, op, "forward", old, new, shared=read.weighted)


def backward_read(name: str, op: str, old: str, new: str) -> Mutant:
    return Mutant(name, op, "backward", old, new, shared=read.projection_grads)


# The two halves of an iteration of Sinkhorn.
COLUMNS = "        matrix = matrix / (matrix.sum(dim=COLUMNS, keepdim=True) + eps)\n"
ROWS = "        matrix = matrix / (matrix.sum(dim=ROWS, keepdim=True) + eps)\n"

MUTANTS = [
    # Faults that an earlier implementation had.
    forward_read("gamma is missing in the forward", "mhc_pre", "v * gamma.flatten()", "v"),
    forward("inv_rms is multiplied in twice", "mhc_pre", "precision) * r", "precision) * r * r"),
    forward("h_pre is taken from h_post", "mhc_pre", "torch.sigmoid(alpha[0] * m_pre + b_pre)", "torch.sigmoid(alpha[1] * m_post + b_post)"),
    edit("dbias is accumulated twice", "mhc_pre", "bias=dz.sum(dim=0)", "bias=2 * dz.sum(dim=0)"),
    backward("the grid of dx ends a block early", "mhc_pre", lambda g, _: g._replace(x=torch.cat([g.x[..., :32], 0 * g.x[..., 32:]], dim=-1))),
    backward_read("gamma is missing in the gradient of x", "mhc_pre", "weighted(dweighted, gamma)", "dweighted"),
    # Similar faults.
    forward("gamma reaches the mean square", "mhc_pre", "norm(v, norm_eps)", "norm(v if gamma is None else v * gamma.flatten(), norm_eps)"),
    forward("gamma reaches h_in", "mhc_pre", "(h_pre.unsqueeze(-1) * wide)", "(h_pre.unsqueeze(-1) * (wide if gamma is None else wide * gamma))"),
    forward("norm_eps is left out", "mhc_pre", "norm(v, norm_eps)", "norm(v, 0.0)"),
    forward("pre_eps is left out", "mhc_pre", "+ pre_eps", "+ 0 * pre_eps"),
    forward("the norm sums instead of averaging", "mhc_pre", "norm(v, norm_eps)", "norm(v, norm_eps) / v.shape[1] ** 0.5"),
    forward("h_post lacks its factor of two", "mhc_pre", "post_scale * torch.sigmoid", "torch.sigmoid"),
    forward("h_res is transposed", "mhc_pre", "h_res.reshape(tokens, streams, streams)", "h_res.reshape(tokens, streams, streams).mT.contiguous()"),
    forward("h_res uses the gate of h_post", "mhc_pre", "alpha[2] * m_res", "alpha[1] * m_res"),
    forward("h_in loses the last stream", "mhc_pre", "(h_pre.unsqueeze(-1) * wide).sum", "(h_pre.unsqueeze(-1) * wide)[:, :-1].sum" ),
    forward("the bias is gated too", "mhc_pre", "alpha[2] * m_res + b_res", "alpha[2] * (m_res + b_res)"),
    forward("x is rounded to bf16 on the way", "mhc_pre", "x.to(phi.dtype)", "x.to(torch.bfloat16).to(phi.dtype)"),
    forward("tokens share the norm of the first", "mhc_pre", "precision) * r", "precision) * r[:1]"),
    backward_read("dx forgets the norm's own gradient", "mhc_pre", "- slope * v", ""),
    backward_read("dphi loses the last token", "mhc_pre", "product(dq.T, weighted(v, gamma), precision)", "product(dq[:-1].T, weighted(v, gamma)[:-1], precision)"),
    backward_read("dgamma is not weighted by v", "mhc_pre", "(dweighted * v).sum(dim=0)", "dweighted.sum(dim=0)"),
    backward("dalpha mixes up its gates", "mhc_pre", lambda g, _: g._replace(alpha=g.alpha[[1, 0, 2]])),
    backward_read("inv_rms stands once too often in dphi", "mhc_pre", "product(dq.T,", "product((dq * r).T,"),
    forward("columns are normalised twice, and rows never", "sinkhorn", f"{COLUMNS}{ROWS}", f"{COLUMNS}{COLUMNS}"),
    forward("rows and columns change places", "sinkhorn", f"{COLUMNS}{ROWS}", f"{ROWS}{COLUMNS}"),
    forward("the first iteration takes rows and then columns", "sinkhorn", "torch.softmax(torch.log_softmax(logits, dim=COLUMNS), dim=ROWS)", "torch.softmax(torch.log_softmax(logits, dim=ROWS), dim=COLUMNS)"),
    forward("the first iteration is a softmax of the rows alone", "sinkhorn", "torch.log_softmax(logits, dim=COLUMNS)", "logits"),
    forward("eps is not added to the first iteration's quotient", "sinkhorn", "dim=COLUMNS) + eps", "dim=COLUMNS) + 0 * eps"),
    forward("one iteration is left out", "sinkhorn", "range(iterations - 1)", "range(iterations - 16)"),
    forward("the logits are not what they are", "sinkhorn", "torch.log_softmax(logits", "torch.log_softmax(1.001 * logits"),
    edit("the gradient of the columns' first sums is missing", "sinkhorn", " - columns * grad.sum(dim=COLUMNS, keepdim=True)", ""),
    edit("the gradient goes around the last iterations", "sinkhorn", "reversed(quotients)", "reversed(quotients[:-8])"),
    forward("h_res is read transposed", "mhc_post", "h_res @ x", "h_res.mT @ x"),
    forward("y is written with the weight of stream 0", "mhc_post", "h_post.unsqueeze(-1)", "h_post[:, :1].unsqueeze(-1)"),
    edit("dh_post forgets y", "mhc_post", "(grad * y.to(h_res.dtype).unsqueeze(1))", "grad"),
    edit("dh_res is transposed", "mhc_post", "h_res=grad @ x.to(h_res.dtype).mT", "h_res=(grad @ x.to(h_res.dtype).mT).mT.contiguous()"),
    edit("dy is that of the first stream", "mhc_post", "(h_post.unsqueeze(-1) * grad).sum(dim=1)", "h_post[:, :1] * grad[:, 0]"),
    forward_read("the head forgets gamma", "mhc_head", "v * gamma.flatten()", "v"),
    edit("the head's dalpha is halved", "mhc_head", "(dz * m).sum()", "(dz * m / 2).sum()"),
    forward("expand divides by n", "expand", "x.unsqueeze(1)", "(x / streams).unsqueeze(1)"),
    backward("expand's gradient is a mean", "expand", lambda g, i: g._replace(x=g.x / i.grad_out.shape[1])),
    backward("expand's gradient is summed in x's dtype", "expand", lambda g, i: g._replace(x=sum(i.grad_out.unbind(1)[1:], i.grad_out[:, 0]))),
]  # fmt: skip


def mutate(*mutants: Mutant) -> Any:
    """Return the reference's kernel with the fault, or with several faults of one operator that are edits."""
    first = mutants[0]
    kernel = load("reference", first.op, first.direction)
    if first.spoil is not None:
        return spoilt(kernel, first)
    equations = kernel.equations
    scope = dict(equations.__globals__)
    for mutant in mutants:
        if mutant.shared is not None:
            own = dict(mutant.shared.__globals__)
            redefine(mutant.shared, own, mutant)
            scope[mutant.shared.__name__] = own[mutant.shared.__name__]
    redefine(equations, scope, *(mutant for mutant in mutants if mutant.shared is None))
    return Kernel(scope[equations.__name__])


def spoilt(kernel: Any, mutant: Mutant) -> Any:
    """Return a kernel whose results the mutant spoils."""

    def run(inputs: Any, out: Any, target: str | None = None) -> None:
        exact = type(out)(*(None if tensor is None else tensor.clone() for tensor in out))
        kernel.run(inputs, exact, target)
        for result, into in zip(mutant.spoil(exact, inputs), out, strict=True):
            if into is not None:
                into.copy_(result)

    return types.SimpleNamespace(run=run)


def redefine(function: Callable[..., Any], scope: dict[str, Any], *mutants: Mutant) -> None:
    """Define a function once more in ``scope``, with the edits of the mutants."""
    source = inspect.getsource(function)
    for mutant in mutants:
        assert source.count(mutant.old) == 1, "the reference has changed: the mutant no longer says what it edits"
        source = source.replace(mutant.old, mutant.new)
    # As in the module that the source is from: annotations are not evaluated.
    text = "from __future__ import annotations\n" + source
    exec(compile(text, mutants[0].name if mutants else "<equations>", "exec"), scope)


def attempt(op: str, direction: str, axes: dict[str, Any], backend: Any, folder: Path) -> AssertionError | None:
    """Run the suite on the backend in one case, and return the failure, if there is one."""
    job = {
        "backend": "reference",
        "device": "cpu",
        "accuracy": {
            "factor": 4,
            "rounded": 1.5,
            "ulps": 4,
            "caps": {"forward": 1e-2, "backward": 1e-2},
            "growth": {"sums": 0.375, "others": 0.125},
            "misrounded": 0.01,
        },
    }
    case = {
        "id": "mutant",
        "name": str(sorted(axes.items())),
        "op": op,
        "direction": direction,
        "target": "",
        "axes": axes,
        "action": "run",
        "sums": list(PARAMETERS),
    }
    try:
        running = RunningCase(job, case, Journal(folder / "journal.jsonl"), SameProcess(backend))
        conform(running)
    except AssertionError as error:
        return error
    return None


class SameProcess:
    """In place of the kernel's process: the same functions, called here, with one kernel in place of the backend's."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend

    def call(self, function: str, arrays: Any, options: Any, on_stage: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "kernel_of", lambda _: self._backend)
            module, _, name = function.partition(":")
            returned = getattr(importlib.import_module(module), name)(dict(arrays), **options)
        return copy.deepcopy(returned)  # as if it had been sent: the kernel's memory is used again

    def orphans(self) -> list[str]:
        return []

    def memory(self) -> None:
        return None

    def work_below(self) -> list[int]:
        return []

    def close(self) -> None:
        """Do nothing: it is this process."""


def axes_of(op: str) -> list[dict[str, Any]]:
    return [axes for axes in CASES if op != "sinkhorn" or axes["dtype"] == "fp32"]


@pytest.mark.parametrize("op", sorted({mutant.op for mutant in MUTANTS}))
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_reference_itself_passes(op: str, direction: str, tmp_path: Path) -> None:
    for axes in at_least(1, axes_of(op)):
        assert attempt(op, direction, axes, load("reference", op, direction), tmp_path) is None, axes


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_suite_kills_the_mutant(mutant: Mutant, tmp_path: Path) -> None:
    backend = mutate(mutant)
    verdicts = (attempt(mutant.op, mutant.direction, axes, backend, tmp_path) for axes in axes_of(mutant.op))
    assert any(verdicts), "every case passed: the suite would not have caught this fault"


def test_there_are_twenty_mutants_and_each_has_its_own_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 20
