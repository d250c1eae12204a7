"""A race times a kernel and its baseline in turns. The clock is made up: what else this machine does is no matter."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kernel_matrix.job import race as timing

SPINNING = 0.05


@dataclass
class Clock:
    """The time of a process, one of whose threads spins until a moment."""

    now: float = 100.0
    used: float = 0.0
    spins_until: float = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.used

    def sleep(self, seconds: float) -> None:
        self.used += max(0.0, min(self.now + seconds, self.spins_until) - self.now)
        self.now += seconds

    @property
    def spins(self) -> bool:
        return self.now < self.spins_until


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(timing, "time", made)
    monkeypatch.setattr(timing, "RACE_SECONDS", 0.0)
    return made


@pytest.mark.parametrize("rest", [True, False])
def test_with_rest_a_runner_begins_when_the_threads_of_the_other_are_at_rest(clock: Clock, rest: bool):
    met = []

    def baseline() -> None:
        """Return while a thread still spins for some time, as the threads of an OpenMP runtime do."""
        clock.spins_until = clock.now + SPINNING

    def run() -> None:
        met.append(clock.spins)
        clock.sleep(0.001)

    times = timing.race(run, baseline, rest=rest)
    assert times["time.rounds"] * 2 == len(met) >= 20
    assert (not any(met)) is rest


def test_threads_that_never_rest_are_not_waited_for_longer_than_the_limit(clock: Clock):
    began, clock.spins_until = clock.now, 1e9
    timing.wait_for_rest()
    assert timing.REST_SECONDS <= clock.now - began < 1.1 * timing.REST_SECONDS


def test_a_process_at_rest_does_not_wait_long(clock: Clock):
    began = clock.now
    timing.wait_for_rest()
    assert clock.now - began < timing.REST_SECONDS / 10


def test_what_only_a_first_run_needs_is_not_timed(clock: Clock):
    cold = {"run": True, "eager": True}

    def runner(name: str, other: str) -> None:
        clock.sleep(0.03 if cold[name] else 0.001)
        cold[name], cold[other] = False, True

    times = timing.race(lambda: runner("run", "eager"), lambda: runner("eager", "run"), rest=True)
    assert times["time.run"] == pytest.approx(0.001)
    assert times["time.eager"] == pytest.approx(0.001)
