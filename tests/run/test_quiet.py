"""A job that measures has the machine to itself, and all that wait for it are measured before anybody goes on."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from common import CPU, Doubles, Silent

from kernel_matrix import pipeline
from kernel_matrix.config.selection import Selection
from kernel_matrix.job import quiet as asking
from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.journal import Journal
from kernel_matrix.run import schedule
from kernel_matrix.run.quiet import Quiet, Share
from kernel_matrix.run.settings import Settings
from kernel_matrix.store.load import collect
from kernel_matrix.vendors.machine import Machine


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_two_that_wait_measure_one_after_the_other_and_then_go_on_together():
    quiet = Quiet()
    with quiet.work() as first, quiet.work() as second:
        assert not first.may_measure(), "the second one works"
        assert not second.may_measure(), "the first one has waited longer"
        assert first.may_measure()
        assert first.may_measure(), "until it says that it has measured"
        assert not first.may_go_on(), "the second one waits"
        assert second.may_measure()
        assert not first.may_go_on(), "the second one measures"
        assert second.may_go_on()
        assert first.may_go_on()


def test_new_work_waits_while_somebody_measures_or_waits_for_it():
    quiet, begun = Quiet(), threading.Event()

    def work() -> None:
        with quiet.work():
            begun.set()

    with ExitStack() as others, quiet.work() as share:
        others.enter_context(quiet.work())
        assert not share.may_measure()
        thread = threading.Thread(target=work)
        thread.start()
        assert not begun.wait(0.05)
        others.close()
        assert share.may_measure()
        assert not begun.wait(0.05)
        assert share.may_go_on()
        assert begun.wait(120)
    thread.join()


@pytest.mark.parametrize("ends", [lambda share: share.ends_measuring(), None], ids=["its process dies", "it ends"])
@pytest.mark.parametrize("measures", [True, False])
def test_one_that_ends_as_it_waits_or_measures_keeps_no_other_waiting(
    ends: Callable[[Share], None] | None, measures: bool
):
    quiet = Quiet()
    with ExitStack() as stack:
        other = stack.enter_context(quiet.work())
        own = stack.enter_context(ExitStack())
        share = own.enter_context(quiet.work())
        assert not share.may_measure()
        if measures:
            assert not other.may_measure()
            assert share.may_measure()
        if ends:
            ends(share)
        own.close()
        assert other.may_measure()
        assert other.may_go_on()


class Process:
    """The job's side: a case in a thread, and the journal as its supervisor reads it."""

    def __init__(self, folder: Path, **job: object) -> None:
        described = {"id": "a/b", "name": "b", "op": "double", "direction": "forward", "target": "any", "axes": {}}
        journal = Journal(folder / "journal.jsonl")
        job = {"backend": "good", "device": "cpu", "accuracy": {}, **job}
        self.folder = folder
        self.case = RunningCase(job, {**described, "action": "run", "timed": True}, journal)

    def entries(self) -> list[str]:
        path = self.folder / "journal.jsonl"
        return [json.loads(line)["entry"] for line in path.read_text().splitlines()] if path.exists() else []


def test_a_case_is_quiet_when_the_harness_has_answered_and_goes_on_when_it_has_answered_again(tmp_path, monkeypatch):
    monkeypatch.setattr(asking, "REST_SECONDS", 0.0)
    process, places = Process(tmp_path, asks_for_quiet=True), []

    def measure() -> None:
        with process.case.quiet():
            places.append("inside")
            process.case.record_race({"time.run": 1.0})
        places.append("behind")

    thread = threading.Thread(target=measure)
    thread.start()
    for entries, place in ((["quiet"], "inside"), (["quiet", "measured"], "behind")):
        until(lambda entries=entries: process.entries() == entries)
        time.sleep(0.02)
        assert place not in places
        asking.answer(tmp_path)
        until(lambda place=place: place in places)
    thread.join()
    assert process.case.waited >= 0.04
    assert process.case.metrics == {"time.run": 1.0}


def test_a_job_that_need_not_ask_does_not_wait_and_a_race_outside_of_quiet_is_refused(tmp_path):
    process = Process(tmp_path)
    with pytest.raises(RuntimeError, match=r"with case\.quiet\(\)"):
        process.case.record_race({"time.run": 1.0})
    with process.case.quiet():
        process.case.record_race({"time.run": 1.0})
    assert process.entries() == []
    with pytest.raises(RuntimeError, match=r"with case\.quiet\(\)"):
        process.case.record_race({"time.run": 1.0})


@pytest.mark.slow
def test_timed_jobs_prepare_together_and_measure_one_after_the_other(doubles: Doubles):
    doubles.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1] }\n    timed: [{ tokens: [1000, 1001] }]")
    project = pipeline.load(doubles.root / "matrix.yaml")
    selected = pipeline.select(project, Selection(toolchains=("good", "raises")))
    timed = [job for job in selected.jobs if job.timed]
    assert len(timed) == 2
    settings = Settings(project.root, project.build, "current", workers=4)
    schedule.run(project.matrix, timed, Machine((CPU,)), settings, Silent())
    times: dict[str, dict[str, float]] = {}
    for job in timed:
        text = (project.build / "jobs" / job.id / "journal.jsonl").read_text()
        for entry in map(json.loads, text.splitlines()):
            if entry["entry"] in ("start", "quiet", "measured", "end"):
                times.setdefault(entry["case"], {})[entry["entry"]] = entry["time"]
    assert len(times) == 4
    order = sorted(times, key=lambda case: times[case]["measured"])
    races = [times[case] for case in order]
    assert all(b["measured"] >= a["measured"] + 2.0 for a, b in pairwise(races)), "each race takes two seconds"
    assert sorted(one["start"] for one in races)[1] < races[0]["measured"], "two prepare at a time"
    seconds = {record.case: record.seconds for record in collect([settings.results]).records}
    waits = [max(0.0, a["measured"] - b["quiet"]) for a, b in pairwise(races)]
    assert max(waits) >= 2.0, "the second one waits while the first one measures"
    for case, one, wait in zip(order[1:], races[1:], waits, strict=True):
        spent = one["end"] - one["start"] - wait
        assert seconds[case] < spent + 0.5, "waiting for quiet is no time of the case"
