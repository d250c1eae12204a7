"""Faults that are put into results: each applies where it should, and a comparison that misses it is told."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kernel_matrix.job import canaries
from kernel_matrix.job.accuracy import Budget
from kernel_matrix.job.canaries import Subject, try_canaries

ELEMENT, NAN, STREAMS, TOKEN, WHOLE, SHORT = canaries.FAULTS
TIGHT = Budget(1e-5, 1e-5)


def subject(golden, *axes, dtype=np.float32, budget=TIGHT):
    golden = np.asarray(golden, np.float64)
    return Subject(golden.astype(dtype), golden, budget, axes)


def numbers(*shape):
    return np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)


def injected(subjects, shortened=None):
    tried = try_canaries(subjects, shortened or {})
    return {canary.fault: canary for canary in tried}


def test_every_fault_is_put_in_and_caught():
    out, bias = subject(numbers(3, 2, 4), "tokens", "streams", "other"), subject(numbers(4))
    tried = injected({"out": out, "bias": bias}, {"bias": numbers(4) - 1})
    assert list(tried) == [ELEMENT, NAN, STREAMS, TOKEN, WHOLE, SHORT]
    assert all(canary.caught for canary in tried.values())
    assert {tried[fault].output for fault in (STREAMS, TOKEN)} == {"out"}
    assert tried[SHORT].output == "bias"
    assert {tried[fault].output for fault in (ELEMENT, NAN)} == {"out", "bias"}, "not every fault in the same output"


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_an_element_is_off_by_more_than_its_budget_in_every_dtype(dtype):
    """In a narrow dtype four times a small budget would be rounded away."""
    tried = injected({"out": subject([[256.0, 1.0]], dtype=dtype, budget=Budget(1e-3, 1e-3))})
    assert tried[ELEMENT].caught


@pytest.mark.parametrize("budget", [Budget(np.inf, np.inf), Budget(3e38, 3e38)])
def test_a_budget_without_end_lets_no_element_be_put_in(budget):
    assert ELEMENT not in injected({"out": subject([[1.0, 2.0]], budget=budget)})


def test_a_result_with_a_fault_is_no_change_of_the_result_itself():
    whole = subject(numbers(3, 2, 4), "tokens", "streams", "other")
    before = whole.result.copy()
    injected({"out": whole})
    assert (whole.result == before).all()


@pytest.mark.parametrize(
    ("subjects", "absent"),
    [
        (subject(numbers(3, 1, 4), "tokens", "streams", "other"), STREAMS),
        (subject(np.ones((3, 2, 4)), "tokens", "streams", "other"), STREAMS),
        (subject(numbers(3, 4), "tokens", "other"), STREAMS),
        (subject(numbers(3, 4)), TOKEN),
        (subject(np.zeros((2, 2)), "tokens", "other"), WHOLE),
        (subject(np.array([3.0])), WHOLE),
        (subject(np.array(3.0)), WHOLE),
        (subject(numbers(3, 4), "tokens", "other"), SHORT),
    ],
    ids=["one stream", "equal streams", "no streams", "no tokens", "zeros", "one element", "0-d", "no sum"],
)
def test_a_fault_that_changes_nothing_is_not_put_in(subjects, absent):
    tried = injected({"out": subjects})
    assert absent not in tried
    assert tried[NAN].caught


def test_a_gradient_that_hardly_changes_is_not_shortened():
    assert SHORT not in injected({"bias": subject(numbers(4))}, {"bias": numbers(4) + 1e-6})


@pytest.mark.parametrize("size", [1, 2, 7])
def test_a_nan_in_few_elements_is_caught(size):
    assert injected({"out": subject(numbers(size))})[NAN].caught


class Blind(Budget):
    """A budget that sees no fault."""

    def faults(self, errors):
        return []


def test_a_comparison_that_sees_nothing_catches_nothing():
    tried = injected({"out": subject(numbers(3, 2), "tokens", "streams", budget=Blind(1e-5, 1e-5))})
    assert set(tried) >= {ELEMENT, NAN, STREAMS, TOKEN, WHOLE}
    assert not any(canary.caught for canary in tried.values())


def test_a_comparison_that_overlooks_nan_misses_those_alone(monkeypatch):
    class Overlooks(Budget):
        def faults(self, errors):
            return [] if errors.nan else super().faults(errors)

    tried = injected({"out": subject(numbers(3, 2), "tokens", "streams", budget=Overlooks(1e-5, 1e-5))})
    assert {fault for fault, canary in tried.items() if not canary.caught} == {NAN, TOKEN}


def test_without_an_output_there_is_no_canary():
    assert try_canaries({}, {}) == []
