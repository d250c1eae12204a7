"""The suite draws what users have: memory of any layout, threads, padding, loud tokens, NaN, many tokens, constants.

Each fault here passed every case once.
"""

from __future__ import annotations

import ast
import importlib
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conforming import described
from loops import at_least
from test_mutants import CASES, Mutant, SameProcess, attempt, forward, mutate

import as_users_call
import draws
from kernel_matrix.job.budget import most_misrounded
from kernel_matrix.job.case import RunningCase
from kernel_matrix.kit import together
from kernel_matrix.kit.running import Running
from mhc.backends import load
from mhc.library import execution

SUITE = Path(__file__).resolve().parents[1] / "mhc"
AXES, LOUD, BF16 = CASES[0], CASES[2], CASES[5]


def case_of(op: str, direction: str, axes: dict[str, Any]) -> RunningCase:
    accuracy = {"factor": 4.0, "rounded": 1.5, "ulps": 4.0, "caps": {"forward": 0.1, "backward": 0.1}}
    job = {"backend": "reference", "device": "cpu", "accuracy": accuracy}
    case = {"id": "x", "name": "x", "op": op, "direction": direction, "target": "", "axes": axes, "action": "run"}
    return RunningCase(job, case, None, SameProcess(load("reference", op, direction)))


def tensors_of(op: str, direction: str = "forward", axes: dict[str, Any] = AXES) -> tuple[dict[str, Any], Any]:
    """Return what the kernel's process knows of a case, and its inputs."""
    running = Running(case_of(op, direction, axes), described(op, direction))
    given = {name: running.frame.given(one, "cpu") for name, one in running.given.items()}
    return running.of_case(running.sizes) | {"backend": "reference"}, given


def inputs_of(op: str, direction: str = "forward", axes: dict[str, Any] = AXES) -> Any:
    case, tensors = tensors_of(op, direction, axes)
    return as_users_call.inputs_of(case, direction, tensors)


def outputs_of(op: str, inputs: Any) -> Any:
    """Return outputs that nobody has written."""
    return importlib.import_module(f"mhc.ops.{op}").empty_outputs(inputs)


def spoilt(op: str, spoil: Callable[[Any, Any], None], direction: str = "forward") -> Any:
    """Return a kernel that is right until ``spoil`` changes its outputs; it gets the inputs too."""
    reference = load("reference", op, direction)

    def run(inputs: Any, out: Any, target: str | None = None) -> None:
        reference.run(inputs, out)
        spoil(inputs, out)

    return types.SimpleNamespace(run=run)


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
    usual = {axes["scale"]: draws.usual("mhc_pre", AXES | axes) for axes in ({"scale": 1}, {"scale": 10})}
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
    assert "numbers where the inputs of a row are NaN" in str(attempt("mhc_post", "forward", AXES, both, tmp_path))


def test_a_gradient_that_depends_on_another_one_is_seen(tmp_path: Path) -> None:
    def spoil(inputs: Any, out: Any) -> None:
        if out.phi is not None and out.gamma is None:
            out.phi[0, 0] += 1

    smallest = AXES | {"tokens": 3, "streams": 3}
    failure = attempt("mhc_pre", "backward", smallest, spoilt("mhc_pre", spoil, "backward"), tmp_path)
    assert "where phi, alpha, bias, gamma is asked for" in str(failure) or "where phi is asked for" in str(failure)


def test_a_token_beyond_65536_is_seen(tmp_path: Path) -> None:
    def spoil(inputs: Any, out: Any) -> None:
        out.out[1 << 16 :] = 0

    axes = AXES | {"tokens": 3, "streams": 3, "hidden": 8}
    assert attempt("mhc_post", "forward", axes, load("reference", "mhc_post"), tmp_path) is None
    failure = str(attempt("mhc_post", "forward", axes, spoilt("mhc_post", spoil), tmp_path))
    assert "out of 65544 rows: off by" in failure


def test_scratch_that_two_threads_share_is_seen() -> None:
    inputs, kept = inputs_of("mhc_post"), []
    reversed_ = type(inputs)(*(tensor.flip(0) if isinstance(tensor, torch.Tensor) else tensor for tensor in inputs))

    def share(given: Any, out: Any) -> None:
        kept[:] = [out.out.clone()]
        time.sleep(1e-3)
        out.out.copy_(kept[0])

    def differing_of(kernel: Any) -> list[str]:
        def once(given: Any) -> dict[str, bytes]:
            out = outputs_of("mhc_post", given)
            kernel.run(given, out)
            return {"out": out.out.numpy().tobytes()}

        return together.differing(once, (inputs, reversed_))

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
    case, tensors = tensors_of(op, direction, LOUD)
    return as_users_call.differences(case, tensors)


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
