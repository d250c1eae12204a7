"""A race times a kernel and its baseline in turns."""

import threading
import time

import pytest

from kernel_matrix.job import race as timing

pytestmark = pytest.mark.alone

SPINNING = 0.05


@pytest.mark.slow
@pytest.mark.parametrize("rest", [True, False])
def test_with_rest_a_runner_begins_when_the_threads_of_the_other_are_at_rest(monkeypatch, rest):
    monkeypatch.setattr(timing, "RACE_SECONDS", 0.0)
    spinning, met = threading.Event(), []

    def spin() -> None:
        end = time.perf_counter() + SPINNING
        while time.perf_counter() < end:
            pass
        spinning.clear()

    def baseline() -> None:
        """Return while a thread still spins for some time, as the threads of an OpenMP runtime do."""
        spinning.set()
        threading.Thread(target=spin).start()

    def run() -> None:
        met.append(spinning.is_set())
        time.sleep(0.001)

    times = timing.race(run, baseline, rest=rest)
    assert times["time.rounds"] * 2 == len(met) >= 20
    assert (not any(met)) is rest


@pytest.mark.slow
def test_threads_that_never_rest_are_not_waited_for_longer_than_the_limit():
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    began = time.perf_counter()
    timing.wait_for_rest()
    stop.set()
    thread.join()
    assert timing.REST_SECONDS <= time.perf_counter() - began < 4 * timing.REST_SECONDS


@pytest.mark.slow
def test_a_process_at_rest_does_not_wait_long():
    began = time.perf_counter()
    timing.wait_for_rest()
    assert time.perf_counter() - began < timing.REST_SECONDS / 2


@pytest.mark.slow
def test_what_only_a_first_run_needs_is_not_timed(monkeypatch):
    monkeypatch.setattr(timing, "RACE_SECONDS", 0.0)
    cold = {"run": True, "eager": True}

    def runner(name: str, other: str) -> None:
        time.sleep(0.03 if cold[name] else 0.001)
        cold[name], cold[other] = False, True

    times = timing.race(lambda: runner("run", "eager"), lambda: runner("eager", "run"), rest=True)
    assert times["time.run"] < 0.02
    assert times["time.eager"] < 0.02
