"""The suite sees an error that grows with the number of tokens: no other check does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_mutants import attempt, backward_read, edit, mutate

from kernel_matrix.kit.checks import growth
from kernel_matrix.kit.checks.growth import Point
from mhc.backends import load

AXES = {
    "tokens": 16384,
    "streams": 4,
    "hidden": 16,
    "dtype": "fp32",
    "gamma": True,
    "precision": "fp32",
    "scale": 1,
    "seed": 1,  # alpha has three elements: with some seeds, 0 among them, one chain's error is small by luck
}

# Each adds fp32 numbers up in one chain over all tokens: in the equations of the operator, or in a function of them.
CHAINS = {
    "mhc_pre": [
        backward_read("gamma", "mhc_pre", "(dweighted * v).sum(dim=0)", "sum((dweighted * v).unbind())"),
        edit("bias", "mhc_pre", "dz.sum(dim=0)", "sum(dz.unbind())"),
        edit("alpha", "mhc_pre", "[part.sum() for part in (dz * m).sum(dim=0).split(parts)]", "[sum(part.flatten().unbind()) for part in (dz * m).split(parts, dim=1)]"),
    ],
    "mhc_head": [
        backward_read("phi", "mhc_head", "product(dq.T, weighted(v, gamma), precision)", "sum((dq.unsqueeze(2) * weighted(v, gamma).unsqueeze(1)).unbind())"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("op", [pytest.param("mhc_pre", marks=pytest.mark.nightly), "mhc_head"])
def test_one_chain_over_all_tokens_is_seen_by_its_growth_alone(op: str, tmp_path: Path) -> None:
    """A case of so many tokens takes seconds, so all chains of an operator are in one kernel."""
    kernel = mutate(*CHAINS[op])
    failure = str(attempt(op, "backward", AXES, kernel, tmp_path))
    grown = re.findall(r"(\w+): the error grows as rows\^", failure)
    assert sorted(grown) == sorted(chain.name for chain in CHAINS[op]), failure
    assert attempt(op, "backward", AXES | {"tokens": growth.LEAST - 1}, kernel, tmp_path) is None


@pytest.mark.nightly
def test_the_error_of_eager_pytorch_does_not_grow(tmp_path: Path) -> None:
    """Of the forward; test_cpu_platform.py has the reference's backwards with as many tokens."""
    assert attempt("mhc_pre", "forward", AXES, load("reference", "mhc_pre", "forward"), tmp_path) is None


def series(*sizes: float) -> list[Point]:
    return [Point(tokens, size * 1e-7, 1e-7) for tokens, size in zip(growth.ROWS, sizes, strict=True)]


def test_the_slope_is_that_of_the_error_in_units_of_the_noise() -> None:
    assert growth.slope(series(4, 16, 64, 128)) == pytest.approx(0.5)
    assert growth.slope(series(2, 4, 8, 8 * 2**0.5)) == pytest.approx(0.25)
    assert growth.slope([Point(tokens, 1e-7, 1e-7 * tokens) for tokens in growth.ROWS]) == pytest.approx(0)


def test_an_error_below_the_noise_is_the_noise() -> None:
    """Luck at few tokens is no slope, and neither is a sum that cancels."""
    assert growth.slope(series(1e-9, 0.01, 0.5, 1)) == 0
    assert growth.slope([Point(tokens, 2.0**-24, 0.0) for tokens in growth.ROWS]) == 0


@pytest.mark.parametrize(
    ("output", "sizes", "fails"),
    [
        ("phi", (2, 4, 8, 8 * 2**0.5), False),  # blocks
        ("phi", (4, 16, 64, 128), True),  # one chain
        ("phi@tensor_cores", (2, 4, 8, 8 * 2**0.5), False),
        ("x", (2, 2.1, 1.9, 2), False),
        ("x", (2, 4, 8, 8 * 2**0.5), True),  # of one token: nothing is added up
        ("h_in@tensor_cores", (2, 4, 8, 8 * 2**0.5), True),
        ("phi", (1, 1, 1, float("nan")), True),
    ],
)
def test_a_sum_may_grow_as_blocks_do_and_a_token_s_own_output_not_at_all(
    output: str, sizes: tuple[float, ...], fails: bool
) -> None:
    def limit_of(name: str) -> float:
        return 0.375 if name.startswith("phi") else 0.125

    metrics: dict[str, float] = {}
    points = {output: [Point(t, s * 1e-7, 1e-7) for t, s in zip(growth.ROWS, sizes, strict=True)]}
    if fails:
        with pytest.raises(AssertionError, match=f"{output}: the error grows as rows"):
            growth.hold(points, metrics, limit_of)
    else:
        growth.hold(points, metrics, limit_of)
    assert metrics.keys() == {f"{output}.growth", f"{output}.limit_growth"}
