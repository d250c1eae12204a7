"""Errors are measured, budgets come from eager PyTorch's own error, and no budget is above the cap."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_matrix.job.accuracy import (
    FIGURES,
    Budget,
    budget,
    correctly_rounded,
    distance,
    measure,
    noise_ratio,
    ordered,
    worst,
)
from kernel_matrix.job.inputs import DTYPES, normal, nudge

BF16, FP32 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float32)
EXACT = measure(np.zeros(1), np.zeros(1))
RULES = {"steps": 1, "factor": 4, "rounded": 1.5, "ulps": 4, "cap": 1e-2}


def test_the_figures_are_those_of_a_calculation_by_hand():
    golden = np.array([1.0, -2.0, 4.0, 0.0])
    errors = measure(np.array([1.0, -2.5, 4.0, 0.0], np.float32), golden)
    assert errors.max_abs == 0.5
    assert errors.mean_abs == 0.125
    assert errors.rel_fro == pytest.approx(0.5 / math.sqrt(21))
    assert errors.elements == 4
    assert errors.cosine == pytest.approx(1 - 22 / math.sqrt(21 * 23.25))
    assert errors.ulp_max == 2**21  # a quarter of the 2**23 values from 2 to 4
    assert errors.ulp_median == 0


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)])
def test_neighbouring_values_are_one_ulp_apart_also_across_zero(dtype):
    one = np.array([1.0, -1.0, 0.0], dtype)
    integer = f"<i{dtype.itemsize}"
    above = (one.view(integer) + 1).view(dtype)
    errors = measure(above, one.astype(np.float64))
    assert errors.ulp_max == errors.ulp_median == 1
    least = np.array([1], integer).view(dtype)
    assert measure(-least, least.astype(np.float64)).ulp_max == 2


def test_nan_and_inf_are_counted_and_never_inside_a_budget():
    result = np.array([np.nan, np.inf, 1.0], np.float32)
    errors = measure(result, np.array([1.0, 1.0, 1.0]))
    assert (errors.nan, errors.inf, errors.max_abs) == (1, 1, 0.0)
    assert Budget(1.0, 1.0).faults(errors) == ["1 NaN and 1 Inf in 3 elements"]
    nothing_written = measure(np.full(3, np.nan, np.float32), np.zeros(3))
    assert nothing_written.max_abs == math.inf
    assert Budget(1.0, 1.0).faults(nothing_written)


def test_comparing_nothing_is_a_fault():
    assert "no element was compared" in Budget(1.0, 1.0).faults(measure(np.zeros(0, np.float32), np.zeros(0)))


def test_shapes_and_the_golden_are_checked():
    with pytest.raises(ValueError, match="shape"):
        measure(np.zeros(3, np.float32), np.zeros(4))
    with pytest.raises(ValueError, match="finite float64"):
        measure(np.zeros(1, np.float32), np.array([np.nan]))
    with pytest.raises(ValueError, match="finite float64"):
        measure(np.zeros(1, np.float32), np.zeros(1, np.float32))  # type: ignore[arg-type]


def test_a_budget_is_a_multiple_of_eager_s_error():
    golden = np.ones(4)
    floor = measure(np.full(4, 1 + 1e-3, np.float32), golden)
    limit = budget(floor, EXACT, golden, FP32, **RULES)
    assert limit.max_abs == pytest.approx(4e-3, rel=1e-3)
    assert limit.rel_fro == pytest.approx(4e-3, rel=1e-3)


def test_a_lucky_eager_result_does_not_make_a_budget_of_zero():
    golden = np.ones(4)
    limit = budget(measure(np.ones(4, np.float32), golden), EXACT, golden, FP32, **RULES)
    assert limit.max_abs == 4 * 4 * np.finfo(np.float32).eps


def test_a_sum_that_cancels_may_be_off_by_the_rounding_of_its_summands():
    """The error of an fp32 sum has the size of the summands, however small the sum."""
    summands = normal("summands", (1000,)).astype(np.float32)
    summands = np.append(summands, -summands.sum(dtype=np.float64)).astype(np.float32) * np.float32(100)
    golden = summands.astype(np.float64).sum(keepdims=True)
    lucky = measure(golden.astype(np.float32), golden)
    wide = summands.astype(np.float64)
    nudged = worst([measure(nudge(str(i), wide).sum(keepdims=True), golden) for i in range(3)])
    other_order = measure(summands[::-1].sum(keepdims=True), golden)
    blind, fair = (budget(lucky, noise, golden, FP32, **RULES) for noise in (EXACT, nudged))
    assert abs(golden[0]) < 1e-2, "the summands cancel"
    assert blind.faults(other_order)
    assert not fair.faults(other_order)
    beyond = (golden + 8 * nudged.max_abs).astype(np.float32)
    assert fair.faults(measure(beyond, golden)), "and no more than that"


def test_one_accumulator_for_a_long_sum_is_inside_its_budget_and_one_in_fp16_is_not():
    summands = normal("long", (100_000,)).astype(np.float32)
    golden = summands.astype(np.float64).sum(keepdims=True)
    pairwise = measure(summands.sum(keepdims=True), golden)
    nudged = measure(nudge("long", summands.astype(np.float64)).sum(keepdims=True), golden)
    short, long = (budget(pairwise, nudged, golden, FP32, **{**RULES, "steps": count}) for count in (1, summands.size))
    in_turn = measure(np.cumsum(summands)[-1:], golden)
    assert short.faults(in_turn)
    assert not long.faults(in_turn)
    narrow = measure(np.cumsum(summands.astype(np.float16))[-1:].astype(np.float32), golden)
    assert long.faults(narrow)


@given(error=st.floats(0, 1e6), size=st.floats(1e-6, 1e6), factor=st.floats(1, 1e3), cap=st.floats(1e-9, 1.0))
def test_no_budget_is_above_its_cap(error, size, factor, cap):
    golden = np.array([size])
    floor = measure(np.array([size + error], np.float64), golden)
    assert budget(floor, floor, golden, FP32, steps=9, factor=factor, rounded=1.5, ulps=8, cap=cap).max_abs <= cap


def test_a_bf16_result_is_measured_as_bf16():
    golden = np.array([1.0, 1.0 + 2**-9])
    errors = measure(golden.astype(BF16), golden)
    assert errors.ulp_max == 0, "a correctly rounded result is no step away"
    assert errors.max_abs == 2**-9


def test_summing_in_bf16_is_outside_the_budget_and_rounding_at_the_end_is_not():
    values = np.random.default_rng(0).standard_normal((4, 4096)).astype(BF16)
    golden = values.astype(np.float64).sum(axis=0)
    rounded_once = golden.astype(np.float32).astype(BF16)
    rounded_each_time = ((values[0] + values[1]) + values[2]) + values[3]
    limit = budget(measure(rounded_once, golden), EXACT, golden, BF16, **{**RULES, "cap": 1.0})
    assert not limit.faults(measure(rounded_once, golden))
    assert any("rel_fro" in fault for fault in limit.faults(measure(rounded_each_time, golden)))


NARROW = [(BF16, 8), (np.dtype(np.float16), 11)]  # with the bits of their significands


@pytest.mark.parametrize(("dtype", "bits"), NARROW)
def test_a_golden_is_rounded_once_also_beside_a_tie(dtype, bits):
    """``astype`` of ml_dtypes rounds 1 + 2^-8 + 2^-40 first to fp32, which is a tie, and then down."""
    half, little = 2.0**-bits, 2.0**-40
    golden = np.array([1 + half, 1 + half + little, 1 + 3 * half - little, 1 + 3 * half, 1 + half - little])
    steps = (correctly_rounded(golden, dtype).astype(np.float64) - 1) / (2 * half)
    assert steps.tolist() == [0, 1, 1, 2, 0], "an exact tie goes to the even neighbour, all others to the nearest"
    assert (correctly_rounded(-golden, dtype) == -correctly_rounded(golden, dtype)).all()


@pytest.mark.parametrize(("dtype", "bits"), NARROW)
@given(data=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=50))
def test_no_other_value_of_the_dtype_is_nearer_than_the_rounded_golden(dtype, bits, data):
    golden = np.array(data)
    rounded = correctly_rounded(golden, dtype)
    finite = np.isfinite(rounded.astype(np.float64))
    golden, rounded = golden[finite], rounded[finite]
    distance = np.abs(rounded.astype(np.float64) - golden)
    for step in (-1, 1):
        neighbour = (rounded.view(np.int16) + np.int16(step)).view(dtype).astype(np.float64)
        compared = np.isfinite(neighbour)
        assert (distance[compared] <= np.abs(neighbour - golden)[compared]).all()


def test_misrounded_is_the_share_of_the_elements_that_are_not_the_rounded_golden():
    golden = np.array([1.0, 1 + 2.0**-8 + 2.0**-40, -0.0, 3.0, 5.0])
    right = np.array([1.0, 1 + 2.0**-7, 0.0, 3.0, 5.0]).astype(BF16)
    assert measure(right, golden).misrounded == 0, "the sign of a zero does not count"
    assert measure(golden.astype(BF16), golden).misrounded == pytest.approx(0.2), "rounded twice"
    with_nan = np.array([1.0, 1.0, 0.0, np.nan, 5.0]).astype(BF16)
    assert measure(with_nan, golden).misrounded == 0.25, "of the finite elements"
    assert measure(np.full(5, np.nan, np.float32), golden).misrounded == 1
    assert measure(np.zeros(0, np.float32), np.zeros(0)).misrounded == 0
    assert measure(right, golden).metrics("out")["out.misrounded"] == 0


def test_the_noise_ratio_is_the_error_over_that_of_the_baseline():
    golden = np.ones(4)
    kernel, eager = (measure(np.full(4, 1 + error), golden) for error in (3e-3, 2e-3))
    assert noise_ratio(kernel, eager) == pytest.approx(1.5)
    assert noise_ratio(EXACT, eager) == 0
    assert noise_ratio(kernel, EXACT) is None, "there is no ratio to an error of zero"
    assert noise_ratio(measure(np.full(4, np.nan), golden), eager) is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fault", [None, np.nan, np.inf], ids=str)
def test_the_distance_of_noise_is_the_part_of_all_figures_that_it_names(dtype, fault):
    golden = np.random.default_rng(1).standard_normal((5, 7))
    golden[0, :2] = 0
    result = (golden * 1.001).astype(DTYPES[dtype])
    result[0, 0] = -0.0  # no other value than the golden's
    if fault is not None:
        result[1, 1] = fault
    errors, near = measure(result, golden), distance(result, golden)
    assert vars(near) == {name: value for name, value in vars(errors).items() if name in vars(near)}
    finite = np.isfinite(result.astype(np.float64))
    apart = ordered(result[finite]) != ordered(correctly_rounded(golden[finite], result.dtype))
    assert 0 < near.misrounded == apart.mean() < 1
    assert list(errors.metrics("out")) == [f"out.{name}" for name in FIGURES]
    assert set(FIGURES) == set(vars(errors))
