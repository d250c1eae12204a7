"""The budget of a comparison is that of its dtype; what it allows is a number, or it says that it allows anything."""

from __future__ import annotations

import json
import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from together import by_day

from kernel_matrix.job.suite_canaries import faults
from kernel_matrix.job.suite_canaries.asking import FACT, Asking
from kernel_matrix.job.suite_canaries.summing import in_words, summed

RANDOM = np.random.default_rng(0)
NORMAL, POSITIVE = RANDOM.normal(size=(16, 32)), np.exp(RANDOM.normal(size=(16, 32)))
WHOLE = RANDOM.integers(-9, 9, size=(16, 32))
INF, NAN = math.inf, math.nan
TOP = float(np.abs(NORMAL).max())
HALF = TOP / 2


def asked(passes, actual, expected=None):
    """Return the line of a comparison, as its fact has it; what is no number in JSON is an error."""
    asking = Asking(Path(__file__).parent)
    asking.begin(__file__)
    expected = actual.copy() if expected is None else expected
    asking.ask("close", passes, actual, expected, asserts=True)
    fact = asking.facts()[FACT]
    (line,) = json.loads(fact, parse_constant=pytest.fail)["lines"]
    (words,) = map(in_words, summed([fact]))
    assert ("It allows anything" in words) == line.get("anything", False), words
    assert "inf" not in words
    assert "nan" not in words
    return line


def close(**tolerances):
    return lambda one, other: bool(np.allclose(one, other, **{"rtol": 0, "atol": 0, **tolerances}))


def nulp(steps):
    def passes(one, other):
        try:
            return np.testing.assert_array_almost_equal_nulp(one, other, steps) is None
        except AssertionError:
            return False

    return passes


FITTING = {
    "small whole numbers": WHOLE,
    "zeros and ones": (WHOLE > 0),
    "powers of two": 2.0 ** (WHOLE % 12),
    "zeros, and one number": np.eye(16) * 1.5,
    "halves": WHOLE / 2,
    "whole numbers that use all bits of bf16": np.arange(256).reshape(16, 16),
    "even whole numbers": 2 * np.arange(256).reshape(16, 16),
    "multiples of one step": np.arange(1, 129).reshape(8, 16) / 128 + 1,
    "whole numbers times powers of two": WHOLE * 2.0 ** (np.arange(32) % 5),
    "whole numbers of TF32": np.arange(2048).reshape(64, 32),
    "products of small whole numbers": np.outer(np.arange(16), np.arange(16)),
    "masks times a scale": (WHOLE > 0) * 0.125,
    "few numbers": faults.rounded(NORMAL[:1, :5], 7),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", by_day(2, FITTING))
def test_numbers_that_only_fit_bf16_have_the_budget_of_their_dtype(name, dtype):
    x = FITTING[name].astype(dtype)
    line = asked(close(atol=2**-9 * np.abs(x).max()), x)
    step = float(np.spacing(np.abs(x).max()))
    assert line["budget"] <= 4 * step
    assert line["faults"]["every element off by twice its budget"] == [1, 1]
    assert line["allows"] >= 2**-11 * np.abs(x).max()


ROUNDED = {
    "bf16": (NORMAL, 7),
    "bf16, positive": (POSITIVE, 7),
    "bf16 with zeros": (np.where(WHOLE > 0, NORMAL, 0), 7),
    "bf16 behind a mask": (np.where(WHOLE > 6, -INF, NORMAL), 7),
    "bf16 of probabilities": (POSITIVE / POSITIVE.sum(axis=1, keepdims=True), 7),
    "TF32": (NORMAL, 10),
    "fp16": (np.float16(NORMAL).astype(float), 10),
    "fp32 in float64": (NORMAL, 23),
}


@pytest.mark.parametrize("name", by_day(1, ROUNDED))
def test_numbers_that_were_rounded_to_a_narrow_dtype_have_its_budget(name):
    values, bits = ROUNDED[name]
    finite = np.isfinite(values)
    x = np.where(finite, faults.rounded(np.where(finite, values, 0), bits), values)
    x = x.astype(np.float64 if bits == 23 else np.float32)
    line = asked(close(atol=1e-9), x)
    step = 2.0 ** (np.frexp(np.abs(x[finite]).max())[1] - 1 - bits)
    assert line["budget"] == pytest.approx(2 * step, rel=0.05)


def with_at(values, **odd):
    """Return an array that has other numbers at the middle (``middle``) or at places of its own."""
    x = np.array(values, np.float32)
    for place, value in odd.items():
        x.flat[x.size // 2 if place == "middle" else int(place.lstrip("at"))] = value
    return x


NUMBERS = {
    "zeros": (np.zeros((8, 8), np.float32), close(atol=0.5), 0.5),
    "a share of what is expected, of which the middle is zero": (with_at(NORMAL, middle=0), close(rtol=0.5), HALF),
    "whole numbers": (WHOLE.astype(np.int32), close(atol=1000), 1000),
    "as many steps as one": (NORMAL.astype(np.float32), nulp(4), 4 * float(np.spacing(np.float32(TOP)))),
    "bytes": (np.abs(WHOLE).astype(np.uint8), close(atol=100), 100),
    "zeros of float64": (np.zeros(64), close(atol=1e-300), 1e-300),
    "a share, of which the middle is tiny": (with_at(NORMAL, middle=1e-6), close(rtol=0.5), HALF),
    "a share, where the middle is most": (with_at(NORMAL, middle=1024), close(rtol=1e-3), 1.024),
    "Inf in the middle": (with_at(NORMAL, middle=INF), close(atol=0.01), 0.01),
    "NaN in the middle": (with_at(NORMAL, middle=NAN), close(atol=0.01, equal_nan=True), 0.01),
    "-Inf in all but one": (with_at(np.full(64, -INF), at9=2.0), close(atol=0.01), 0.01),
    "Inf and NaN, and few numbers": (
        np.where(WHOLE > 4, NORMAL, np.where(WHOLE > 0, INF, NAN)).astype(np.float32),
        close(atol=0.01, equal_nan=True),
        0.01,
    ),
    "a row of Inf": (with_at(NORMAL, **{f"at{n}": INF for n in range(256, 288)}), close(atol=0.01), 0.01),
    "a large tolerance": (NORMAL.astype(np.float32), close(atol=1e15), 1e15),
    "one that float64 hardly has": (NORMAL, close(atol=1e308), 1e308),
    "numbers as large as fp16 has": (np.full((8, 8), 65000, np.float16), close(atol=512.0), 512.0),
    "numbers as large as float64 has": (np.full((8, 8), -1.6e308), close(rtol=1e-3), 1.6e305),
}


@pytest.mark.parametrize("name", by_day(1, NUMBERS))
def test_what_a_comparison_allows_is_a_number(name):
    values, passes, tolerance = NUMBERS[name]
    line = asked(passes, values)
    assert "anything" not in line
    assert tolerance / 1.03 <= line["allows"] <= float(f"{tolerance:.3g}")
    assert line["faults"]["one element off by 1 % of the largest"][0] == 1


def test_one_percent_is_of_the_element_that_a_share_lets_be_off_most():
    line = asked(close(rtol=0.05), with_at(NORMAL, middle=0))
    assert line["faults"]["one element off by 1 % of the largest"] == [1, 1]


@pytest.mark.nightly
@pytest.mark.parametrize("values", [WHOLE > 0, WHOLE > -99, np.full((4, 4), 255, np.uint8), np.zeros((4, 4), np.uint8)])
def test_one_element_of_few_numbers_is_off_by_one(values):
    line = asked(close(atol=0), values)
    assert line["faults"]["one element off by 1 % of the largest"] == [1, 0]


ANYTHING = {
    "a tolerance of Inf": (NORMAL.astype(np.float32), close(atol=INF)),
    "Inf times what is expected": (with_at(NORMAL, middle=0.0), close(rtol=INF)),
    "one beyond the dtype": (NORMAL.astype(np.float16), close(atol=2e5)),
    "one beyond fp32": (NORMAL.astype(np.float32), close(atol=1e300)),
    "one beyond bf16": (NORMAL.astype(ml_dtypes.bfloat16), close(atol=1e39)),
    "whole numbers": (WHOLE, close(atol=INF)),
    "bytes": (WHOLE.astype(np.uint8), close(atol=256)),
    "truths": (WHOLE > 0, close(atol=1)),
    "zeros": (np.zeros((8, 8), np.float32), close(atol=INF)),
    "with Inf in the middle": (with_at(NORMAL, middle=-INF), close(atol=INF)),
    "with NaN in the middle": (with_at(NORMAL, middle=NAN), close(atol=INF, equal_nan=True)),
    "approx": (NORMAL, lambda one, other: bool(np.all(one == pytest.approx(other, abs=INF)))),
    "assert_allclose": (NORMAL, lambda one, other: np.testing.assert_allclose(one, other, atol=INF) is None),
}


@pytest.mark.parametrize("name", by_day(1, ANYTHING))
def test_a_comparison_that_takes_any_number_says_so(name):
    values, passes = ANYTHING[name]
    line = asked(passes, values)
    assert line["anything"] is True
    assert "allows" not in line


def test_noise_beyond_all_numbers_is_no_number_of_its_own():
    line = asked(close(atol=INF), np.full((4, 4), 1.7e308), np.full((4, 4), -1.7e308))
    assert line["anything"] is True
    assert math.isfinite(line["budget"])


@pytest.mark.parametrize(
    ("values", "rtol", "second"),
    [
        (NORMAL, 0.5, TOP),
        (with_at(NORMAL, middle=-64), 0.2, 16),
        (WHOLE * 1j + 6, 0.5, None),
        (NORMAL, 1.5, INF),
        (np.full(4, 250, np.uint8), 0.5, 0),
        (NORMAL, 1e-3, 0),
    ],
)
def test_where_the_second_argument_is_the_result_it_may_be_off_by_more(values, rtol, second):
    line = asked(close(rtol=rtol), values)
    if second == 0:
        assert "second" not in line
    elif second == INF:
        assert line["second"] is None
    else:
        second = float(np.abs(values).max()) if second is None else second
        assert second / 1.03 <= line["second"] <= float(f"{second:.3g}")
        assert line["second"] > 1.2 * line["allows"]


def test_a_line_that_compared_zeros_first_still_says_what_it_allows():
    asking, x = Asking(Path(__file__).parent), NORMAL.astype(np.float32)
    asking.begin(__file__)
    for values in (np.zeros_like(x), x):
        asking.ask("close", close(atol=0.01), values, values.copy(), asserts=True)
    (line,) = json.loads(asking.facts()[FACT])["lines"]
    assert 0.0085 <= line["allows"] <= 0.01


@pytest.mark.nightly
@pytest.mark.parametrize("tolerances", [{"atol": NAN}, {"rtol": NAN}, {"atol": 0}, {"rtol": NAN, "atol": INF}])
def test_a_tolerance_that_is_no_number_allows_nothing(tolerances):
    line = asked(close(**tolerances), NORMAL)
    assert {"allows", "anything"}.isdisjoint(line)
    assert all(through == 0 for _, through in line["faults"].values())


def test_asking_is_cheap_and_what_a_comparison_says_of_a_fault_is_short():
    said = []

    def passes(one, other):
        said.append(repr(one))
        return bool(np.allclose(one, other))

    asked(passes, NORMAL.astype(np.float32))
    assert len(said) <= 24
    assert max(map(len, said)) < 200
    assert len(repr(NORMAL)) > 2000
