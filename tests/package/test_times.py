"""The times of a race must agree with what the comparing process measures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conforming import described

from kernel_matrix.kit import MisbehavedError, WrongResultError
from kernel_matrix.kit.checks import times

X = np.arange(6, dtype=np.float32).reshape(3, 2)


class Case:
    """A case whose kernel takes ``seconds`` a run by the clock that the tests move, and waits ``delay`` for a core."""

    def __init__(self, clock, claimed, seconds, delay=0.0, *, stale=False, cores=0.0):
        self.metrics = {"time.run": claimed}
        self.clock, self.seconds, self.delay, self.waited = clock, list(seconds), delay, 0.0
        self.stale, self.used, self.cores = stale, 0.0, cores
        self.runs = []

    def kernel_delay(self):
        return self.waited

    def kernel_cpu_seconds(self):
        return self.used

    def call(self, function, name, added=(), firsts=()):
        if function.endswith(":vary"):
            self.added = added
            return None, {}
        self.runs.append(len(firsts))
        self.waited += self.delay * len(firsts)
        seconds = self.seconds.pop(0) * len(firsts)
        self.clock.now += seconds
        self.used += seconds * self.cores
        x = X.copy()
        if not self.stale:
            x += np.float32(self.added[(self.runs[-1] - 1) % len(self.added)])
            x.reshape(-1)[0] = firsts[-1]
        return None, {"out": x}


class Running:
    """A case of an operator that gives its input."""

    def __init__(self, case):
        self.case, self.given, self.op = case, {"x": X}, described("expand", "forward")

    def numbers(self, values):
        return values["x"]

    def inside(self, code, out, numbers, what):
        if not (out["out"] == numbers).all():
            raise WrongResultError(code, f"{what}: out")


def hold(case):
    times._hold(Running(case))


class Clock:
    now = 0.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(times, "time", clock)
    return clock


def test_a_time_that_is_measured_again_passes_in_one_try(clock):
    case = Case(clock, claimed=1e-3, seconds=[4e-3])
    hold(case)
    assert 175 <= case.runs[0] <= 200


@pytest.mark.parametrize(("claimed", "runs"), [(1e-9, 1000), (1e-3, 200), (0.4, 2), (30.0, 2)])
def test_so_many_runs_as_fit_into_a_fifth_of_a_second(clock, claimed, runs):
    case = Case(clock, claimed, [claimed])
    hold(case)
    assert runs - runs // 8 <= case.runs[0] <= runs


def test_the_number_of_runs_is_not_known_before(clock):
    numbers = set()
    for _ in range(20):
        case = Case(clock, claimed=1e-3, seconds=[1e-3])
        hold(case)
        numbers |= set(case.runs)
    assert len(numbers) > 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_no_two_runs_have_the_same_inputs(dtype):
    values = [times._value(run) for run in range(times._TRIES * times._MOST_RUNS)]
    assert len(set(torch.tensor(values, dtype=torch.float64).to(dtype).tolist())) == times._TRIES * times._MOST_RUNS


def test_three_slow_tries_are_red(clock):
    with pytest.raises(MisbehavedError) as raised:
        hold(Case(clock, claimed=1e-3, seconds=[0.02, 0.01, 0.03]))
    words = "the kernel's process says 0.001 s a run; the process that compares measures 0.01 s"
    assert str(raised.value).startswith(words)


def test_one_quick_try_of_three_is_enough(clock):
    case = Case(clock, claimed=1e-3, seconds=[0.02, 0.02, 1e-3])
    hold(case)
    assert len(case.runs) == 3


def test_the_wait_for_a_core_does_not_count(clock):
    hold(Case(clock, claimed=1e-3, seconds=[0.02], delay=0.018))


def test_threads_that_wait_for_each_other_wait_for_nobody_else(clock, monkeypatch):
    """A kernel that claims a hundredth of its time keeps 24 threads busy: they wait for the cores all of the time."""
    monkeypatch.setattr(times.os, "sched_getaffinity", lambda _: range(2))
    with pytest.raises(MisbehavedError, match=r"measures 0.02 s"):
        hold(Case(clock, claimed=2e-4, seconds=[0.02] * 3, delay=0.22, cores=2.0))


@pytest.mark.parametrize("claimed", [0.0, -1.0, float("nan")])
def test_a_time_that_is_none_is_red(clock, claimed):
    with pytest.raises(MisbehavedError, match=r"s a run \["):
        hold(Case(clock, claimed, [1.0]))


def test_an_output_that_was_kept_is_red(clock):
    with pytest.raises(WrongResultError, match="do not follow the inputs where the kernel runs again and again: out"):
        hold(Case(clock, 1e-3, [1e-3], stale=True))
