"""The suite draws what users have: memory of any layout, threads, padding, loud tokens, NaN, many tokens, constants.

Each fault here passed every case once.
"""

from __future__ import annotations

import ast
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from loops import at_least
from test_mutants import CASES, Mutant, SameProcess, attempt, forward, mutate

import constants
import draws
import kernel_side
import properties
import through_autograd
from kernel_matrix.job.budget import most_misrounded
from kernel_matrix.job.case import RunningCase
from kernel_matrix.kit import together
from mhc.backends import load
from mhc.library import execution

SUITE = Path(__file__).resolve().parents[1] / "mhc"
AXES, LOUD, BF16 = CASES[0], CASES[2], CASES[5]


def case_of(op: str, direction: str, axes: dict[str, Any]) -> RunningCase:
    accuracy = {"factor": 4.0, "rounded": 1.5, "ulps": 4.0, "caps": {"forward": 0.1, "backward": 0.1}}
    job = {"backend": "reference", "device": "cpu", "accuracy": accuracy}
    case = {"id": "x", "name": "x", "op": op, "direction": direction, "target": "", "axes": axes, "action": "run"}
    return RunningCase(job, case, None, SameProcess(load("reference", op, direction)))


def inputs_of(op: str, direction: str = "forward", axes: dict[str, Any] = AXES) -> Any:
    return draws.inputs_of(case_of(op, direction, axes))


def spoilt(op: str, spoil: Callable[[Any, Any], None], direction: str = "forward") -> Any:
    """Return a kernel that is right until ``spoil`` changes its outputs; it gets the inputs too."""
    reference = load("reference", op, direction)

    def run(inputs: Any, out: Any, target: str | None = None) -> None:
        reference.run(inputs, out)
        spoil(inputs, out)

    return types.SimpleNamespace(run=run)


def outputs(op: str, kernel: Any, inputs: Any) -> Any:
    out = draws.allocated(op, "forward", inputs)
    kernel.run(inputs, out)
    return out


def test_no_check_of_the_suite_is_an_assert_statement() -> None:
    """``python -O`` removes them."""
    for path in at_least(5, SUITE.glob("*.py")):
        found = [node.lineno for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Assert)]
        assert not found, f"{path.name}: lines {found}"


ROUNDED = [
    forward("h_post", "mhc_post", "h_post.unsqueeze(-1)", "h_post.bfloat16().float().unsqueeze(-1)"),
    forward("h_res", "mhc_post", "h_res @ x", "h_res.bfloat16().float() @ x"),
    forward("h_pre", "mhc_pre", "(h_pre.unsqueeze(-1) *", "(h_pre.bfloat16().to(wide.dtype).unsqueeze(-1) *"),
]


@pytest.mark.parametrize("mutant", ROUNDED, ids=lambda mutant: mutant.name)
def test_a_coefficient_that_is_rounded_on_the_way_is_seen_by_the_misrounded_share(
    mutant: Mutant, tmp_path: Path
) -> None:
    failure = str(attempt(mutant.op, "forward", BF16, mutate(mutant), tmp_path))
    assert "of the elements are misrounded, over" in failure
    assert "max_abs" not in failure


def test_few_elements_may_be_misrounded_by_luck_and_many_not() -> None:
    assert most_misrounded(0.01, 1, 0) > 1, "one element says nothing"
    assert most_misrounded(0.01, 5600, 0) == pytest.approx(0.0157, abs=1e-4)
    assert most_misrounded(0.01, 10**6, 0.08) == pytest.approx(0.1616, abs=1e-4), "where the baseline rounds to TF32"


def test_a_large_scale_has_padding_a_loud_token_and_other_constants() -> None:
    inputs = inputs_of("mhc_pre", "backward", LOUD)
    assert not inputs.x[0].any()
    assert not inputs.grad_h_post[0].any()
    assert inputs.x[-1].abs().max() > 1000
    assert inputs.x[1:-1].abs().max() < 40
    usual = {axes["scale"]: constants.usual("mhc_pre", AXES | axes) for axes in ({"scale": 1}, {"scale": 10})}
    assert usual == {1: False, 10: True}, "so one process runs two kernels of a shape"


def test_padding_without_a_norm_is_seen(tmp_path: Path) -> None:
    def spoil(inputs: Any, out: Any) -> None:
        out.r[(inputs.x == 0).all(dim=(1, 2))] = 0

    kernel = spoilt("mhc_pre", spoil)
    assert attempt("mhc_pre", "forward", AXES, kernel, tmp_path) is None
    assert "r: max_abs" in str(attempt("mhc_pre", "forward", LOUD, kernel, tmp_path))


def test_nan_that_is_read_as_a_number_is_seen(tmp_path: Path) -> None:
    reference = load("reference", "mhc_post")
    kernel = types.SimpleNamespace(run=lambda i, out, target=None: reference.run(i._replace(x=i.x.nan_to_num()), out))
    assert attempt("mhc_post", "forward", AXES, kernel, tmp_path) is None, "y is NaN as well, and so is all of out"
    both = types.SimpleNamespace(
        run=lambda i, out, target=None: reference.run(type(i)(*(value.nan_to_num() for value in i)), out)
    )
    assert "numbers where all inputs of a token are NaN" in str(attempt("mhc_post", "forward", AXES, both, tmp_path))


def test_a_gradient_that_depends_on_another_one_is_seen(tmp_path: Path) -> None:
    def spoil(inputs: Any, out: Any) -> None:
        if out.phi is not None and out.gamma is None:
            out.phi[0, 0] += 1

    smallest = AXES | {"tokens": 3, "streams": 3}
    failure = attempt("mhc_pre", "backward", smallest, spoilt("mhc_pre", spoil, "backward"), tmp_path)
    assert "phi: other bits if it is asked for without the others" in str(failure)


def test_a_token_beyond_65536_is_seen() -> None:
    def spoil(inputs: Any, out: Any) -> None:
        out.out[1 << 16 :] = 0

    axes = AXES | {"tokens": 3, "hidden": 8}
    inputs, kernel = inputs_of("mhc_post", axes=axes), spoilt("mhc_post", spoil)
    out = outputs("mhc_post", kernel, inputs)
    properties.check_many_tokens(lambda given: outputs("mhc_post", load("reference", "mhc_post"), given), inputs, out)
    with pytest.raises(AssertionError, match="out of 65541 tokens: off by"):
        properties.check_many_tokens(lambda given: outputs("mhc_post", kernel, given), inputs, out)


def test_scratch_that_two_threads_share_is_seen() -> None:
    inputs, kept = inputs_of("mhc_post"), []

    def share(given: Any, out: Any) -> None:
        kept[:] = [out.out.clone()]
        time.sleep(1e-3)
        out.out.copy_(kept[0])

    both = inputs, kernel_side.reversed_tokens(inputs)

    def differing_of(kernel: Any) -> list[str]:
        return together.differing(lambda given: {"out": outputs("mhc_post", kernel, given).out.numpy().tobytes()}, both)

    assert differing_of(load("reference", "mhc_post")) == []
    assert differing_of(spoilt("mhc_post", share)) == ["out"]


def flat(tensor: Any) -> Any:
    """Return what a kernel reads that takes memory for contiguous."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    whole = tensor.new_empty(0).set_(tensor.untyped_storage())
    return whole[tensor.storage_offset() :][: tensor.numel()].view(tensor.shape)


def differing(op: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Call the operator as users do, with kernels that take memory for contiguous."""

    def load_flat(backend: str, operator: str, of: str = "forward") -> Any:
        kernel = load(backend, operator, of)
        return types.SimpleNamespace(run=lambda inputs, out: kernel.run(type(inputs)(*map(flat, inputs)), out))

    monkeypatch.setattr(execution, "load", load_flat)
    kernel = {"backend": "reference", "op": op, "direction": direction}
    given = inputs_of(op, direction, LOUD)
    return through_autograd.differences(
        kernel, load("reference", op, direction), given, lambda k, i: draws.allocated(k["op"], k["direction"], i)
    )


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_inputs_that_are_not_made_contiguous_are_seen(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert differing("mhc_pre", direction, monkeypatch) == []
    ready = execution._ready
    with monkeypatch.context() as patch:
        patch.setattr(execution, "_ready", lambda values: values)
        assert differing("mhc_pre", direction, patch), "no tensor"
    with monkeypatch.context() as patch:
        patch.setattr(execution, "_ready", lambda values: (*ready(values[:1]), *values[1:]))
        assert differing("mhc_pre", direction, patch), "the first tensor alone"


@pytest.mark.parametrize("option", ["norm_eps", "pre_eps", "post_scale"])
def test_another_default_is_seen(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import mhc

    monkeypatch.setitem(mhc.mhc_pre.__kwdefaults__, option, 1e-5)
    assert differing("mhc_pre", "forward", monkeypatch)
