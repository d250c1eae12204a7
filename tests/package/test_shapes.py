"""The suite sees a fault that only some shapes or constants have. The shapes come from matrix.yaml's cases.

``tests/config/test_suite_cases.py`` holds matrix.yaml to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_mutants import Mutant, attempt, edit, forward, mutate

import draws
from mhc.backends import load
from mhc.ops import (
    mhc_coefficients,
    mhc_head,
    mhc_post_pre,
    mhc_pre,
    mhc_pre_norm,
    mhc_pre_norm_fp8,
    mhc_single_pass,
    mhc_single_pass_fp8,
    sinkhorn,
)
from test_operators import FORWARD, FORWARD_ONLY

OTHERS = {"gamma": True, "precision": "fp32", "scale": 1, "seed": 0, "form": "paper", "dtype": "fp32"}
SHAPES: dict[str, dict[str, Any]] = {
    "three streams": {"tokens": 3, "streams": 3, "hidden": 77},
    "sixteen streams": {"tokens": 3, "streams": 16, "hidden": 72},
    "wide rows": {"tokens": 3, "streams": 4, "hidden": 7168},
}
USUAL = {"tokens": 7, "streams": 4, "hidden": 200}


def spoiled_in(shapes: list[str], op: str, direction: str) -> Mutant:
    """Return a mutant whose first output has one wrong element, and only in some shapes."""
    streams = {SHAPES[shape]["streams"] for shape in shapes if shape != "wide rows"}

    def spoil(result: Any, inputs: Any) -> Any:
        first = next(index for index, tensor in enumerate(result) if tensor is not None)
        values = list(result)
        if inputs.spec.streams in streams or ("wide rows" in shapes and inputs.spec.hidden > 4096):
            values[first] = values[first].clone()
            values[first].view(-1)[-1] += 0.1
        return type(result)(*values)

    return Mutant(" and ".join(shapes), op, direction, spoil=spoil)


# By day mhc_pre and an operator without hidden numbers, forward.
@pytest.mark.parametrize("direction", ["forward", pytest.param("backward", marks=pytest.mark.nightly)])
@pytest.mark.parametrize(
    "op",
    [
        pytest.param(op, marks=() if op in ("mhc_pre", "sinkhorn") else pytest.mark.nightly)
        for op in FORWARD
        if op not in FORWARD_ONLY  # whose widths are others
    ],
)
def test_a_fault_of_one_shape_is_seen_in_the_case_of_that_shape_alone(op: str, direction: str, tmp_path: Path) -> None:
    """The comparison is the same for every operator: mhc_pre has each shape, and the others one."""
    shapes = [*SHAPES] if op == "mhc_pre" else ["three streams"]
    mutant = mutate(spoiled_in(shapes, op, direction))
    assert attempt(op, direction, OTHERS | USUAL, mutant, tmp_path) is None
    for shape in shapes:
        assert attempt(op, direction, OTHERS | SHAPES[shape], mutant, tmp_path) is not None, shape
        assert attempt(op, direction, OTHERS | SHAPES[shape], load("reference", op, direction), tmp_path) is None, shape


FOR_ONE_CONSTANT = [
    forward("pre_eps of mhc_pre", "mhc_pre", "+ pre_eps", "+ {pre_eps}"),
    forward("norm_eps of mhc_pre", "mhc_pre", "norm(v, norm_eps)", "norm(v, {norm_eps})"),
    forward("post_scale of mhc_pre", "mhc_pre", "post_scale * torch.sigmoid", "{post_scale} * torch.sigmoid"),
    edit("post_scale of mhc_pre's gradient", "mhc_pre", "post_scale * grad_h_post", "{post_scale} * grad_h_post"),
    edit("pre_eps of mhc_pre's gradient", "mhc_pre", "+ pre_eps", "+ {pre_eps}"),
    forward("pre_eps of mhc_head", "mhc_head", "+ pre_eps", "+ {pre_eps}"),
    forward("norm_eps of mhc_head", "mhc_head", "norm(v, norm_eps)", "norm(v, {norm_eps})"),
    forward("iterations of sinkhorn", "sinkhorn", "range(iterations - 1)", "range({iterations} - 1)"),
]


@pytest.mark.parametrize("mutant", FOR_ONE_CONSTANT, ids=lambda mutant: mutant.name)
def test_a_kernel_for_the_usual_constants_fails_with_the_others(mutant: Mutant, tmp_path: Path) -> None:
    """With the usual ones it passes: no other case sees it. bf16 has them, and four streams of Sinkhorn have."""
    usual = OTHERS | USUAL | ({} if mutant.op == "sinkhorn" else {"dtype": "bf16"})
    other = OTHERS | SHAPES["three streams"]
    values = draws.constants_of(mutant.op, usual)
    kernel = mutate(Mutant(mutant.name, mutant.op, mutant.direction, mutant.old, mutant.new.format(**values)))
    assert attempt(mutant.op, mutant.direction, usual, kernel, tmp_path) is None
    assert attempt(mutant.op, mutant.direction, other, kernel, tmp_path) is not None


def test_the_usual_constants_are_the_operators_own_and_the_others_all_differ() -> None:
    shapes = [
        {"streams": n, "hidden": 77, "dtype": dtype, "scale": 1, "form": "paper"}
        for n in (3, 4)
        for dtype in ("fp32", "bf16")
    ]
    specs = {
        "mhc_pre": mhc_pre.MhcPreSpec(4, 77, torch.float32, True),
        "mhc_head": mhc_head.MhcHeadSpec(4, 77, torch.float32, True),
        "mhc_post_pre": mhc_post_pre.MhcPostPreSpec(4, 77, torch.float32, True),
        "mhc_pre_norm": mhc_pre_norm.MhcPreNormSpec(4, 77, torch.float32, True),
        "mhc_pre_norm_fp8": mhc_pre_norm_fp8.MhcPreNormFp8Spec(4, 77, torch.float32, True),
        "mhc_coefficients": mhc_coefficients.MhcCoefficientsSpec(4, 77, torch.float32, True),
        "mhc_single_pass": mhc_single_pass.MhcSinglePassSpec(4, 77, torch.float32, True),
        "mhc_single_pass_fp8": mhc_single_pass_fp8.MhcSinglePassFp8Spec(4, 77, torch.float32, True),
        "sinkhorn": sinkhorn.SinkhornSpec(4),
    }
    assert specs.keys() == FORWARD.keys() - set(draws.WITHOUT)
    for op, spec in specs.items():
        usual = next(draws.constants_of(op, axes) for axes in shapes if draws.usual(op, axes))
        other = next(draws.constants_of(op, axes) for axes in shapes if not draws.usual(op, axes))
        assert op != "sinkhorn" or usual.pop("eps") == other.pop("eps") == 0  # the paper adds none; see below
        for name in usual.keys() - {"form"}:
            assert usual[name] == getattr(spec, name), f"{op}: {name}"
            assert usual[name] != other[name], f"{op}: {name}"
    of_deepseek = [draws.constants_of("sinkhorn", {**shapes[0], "streams": n, "form": "deepseek"}) for n in (4, 5)]
    assert [values["eps"] for values in of_deepseek] == pytest.approx([1e-6, 1e-4])


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("streams", [3, pytest.param(5, marks=pytest.mark.nightly)])
def test_the_properties_of_sinkhorn_hold_with_the_others_too(direction: str, streams: int, tmp_path: Path) -> None:
    """Its eps is then 1e-4, by which a row's sum is not one."""
    axes = OTHERS | {"tokens": 3, "streams": streams, "form": "deepseek"}
    assert attempt("sinkhorn", direction, axes, load("reference", "sinkhorn", direction), tmp_path) is None
