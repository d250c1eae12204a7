"""The cases of matrix.yaml hold what the suite's checks need: shapes, many tokens, both values of every constant."""

from __future__ import annotations

import importlib.util

import pytest
from common import ROOT
from loops import at_least

from kernel_matrix.config.plan import expand

MOST_STREAMS, WIDEST, MANY_TOKENS = 16, 7168, 16384


def cases_of(matrix, op, direction, tier):
    return [axes for _, axes in expand(matrix.ops[op], tier, direction)]


def everything(matrix):
    return [(op, direction) for op, spec in matrix.ops.items() for direction in spec.directions]


def constants():
    """Return the module of the suite that has the constants of its cases."""
    spec = importlib.util.spec_from_file_location("draws", ROOT / "tests/mhc/draws.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def usual(op, axes):
    return None if op in constants().WITHOUT else constants().usual(op, axes)


def test_every_operator_has_the_shapes_where_kernels_differ(matrix):
    for op, direction in at_least(8, everything(matrix)):
        quick, full = (cases_of(matrix, op, direction, tier) for tier in ("quick", "full"))
        fp32 = [axes for axes in quick if axes["dtype"] == "fp32"]
        assert {3, 4} <= {axes["streams"] for axes in fp32}, f"{op}.{direction}"
        assert {1, 3, 8, MOST_STREAMS} <= {axes["streams"] for axes in full}, f"{op}.{direction}"
        if "hidden" in matrix.ops[op].axes:
            wide = [axes for axes in full if axes["hidden"] == WIDEST]
            assert {axes["streams"] for axes in wide} == {4}, f"{op}.{direction}"


@pytest.mark.parametrize(
    ("op", "direction", "tier"),
    [("mhc_pre", "forward", "full"), ("mhc_pre", "backward", "quick"), ("mhc_head", "backward", "quick")],
)
def test_the_growth_of_errors_is_measured(matrix, op, direction, tier):
    cases = [axes for axes in cases_of(matrix, op, direction, tier) if axes["tokens"] == MANY_TOKENS]
    assert [(axes["streams"], axes["dtype"]) for axes in cases] == [(4, "fp32")]


def test_the_sums_that_matrix_yaml_names_are_those_of_the_suite(matrix):
    """The suite counts their rounded operations, and canaries take the last token out of them."""
    for name, op in at_least(5, matrix.ops.items()):
        entries = op.outputs.get("backward", ())
        outputs = {output for entry in entries for output in ([entry] if isinstance(entry, str) else entry)}
        assert set(op.sums) == outputs & constants().PARAMETERS, name


@pytest.mark.parametrize("op", ["mhc_pre", "mhc_head", "sinkhorn"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_every_constant_has_its_usual_value_and_another_one_in_the_quick_tier(matrix, op, direction):
    cases = cases_of(matrix, op, direction, "quick")
    forms = {axes.get("form") for axes in cases}
    for form in at_least(1, forms):
        assert {usual(op, axes) for axes in cases if axes.get("form") == form} == {True, False}, form


def test_both_kinds_of_constants_come_with_one_dtype_where_an_operator_has_many_cases(matrix):
    """The forward of mhc_pre: a fault of the bf16 kernel alone is seen with the usual constants and with others."""
    for dtype in ("fp32", "bf16"):
        cases = [axes for axes in cases_of(matrix, "mhc_pre", "forward", "quick") if axes["dtype"] == dtype]
        assert {usual("mhc_pre", axes) for axes in cases} == {True, False}


def test_an_operator_without_constants_has_none(matrix):
    assert {
        op for op in matrix.ops if usual(op, {"streams": 4, "hidden": 77, "dtype": "fp32", "scale": 1}) is None
    } == {
        "mhc_post",
        "mhc_read",
        "expand",
    }
