"""Timing a kernel in turns with eager PyTorch."""

import threading
import time

import pytest

from kernel_matrix import plugin
from kernel_matrix.journal import Journal
from kernel_matrix.plugin import RunningCase

SPINNING = 0.05


def running_case(tmp_path, device: str) -> RunningCase:
    case = {"id": "c", "name": "c", "op": "o", "direction": "forward", "target": "t", "axes": {}, "action": "run"}
    return RunningCase({"backend": "b", "device": device}, case, Journal(tmp_path / "journal.jsonl"))


@pytest.mark.parametrize(("device", "at_rest"), [("cpu", True), ("cuda", False)])
def test_a_cpu_runner_begins_when_the_threads_of_the_other_are_at_rest(tmp_path, monkeypatch, device, at_rest):
    monkeypatch.setattr(plugin, "_RACE_SECONDS", 0.0)
    spinning, met = threading.Event(), []

    def eager() -> None:
        """Its threads go on for a while when it is done, as those of an OpenMP runtime do."""
        spinning.set()
        threading.Timer(SPINNING, spinning.clear).start()

    def run() -> None:
        met.append(spinning.is_set())
        time.sleep(0.001)

    case = running_case(tmp_path, device)
    case.race(run, eager)
    assert case.metrics["time.rounds"] == len(met) - 1 >= 10
    assert (not any(met[1:])) is at_rest
