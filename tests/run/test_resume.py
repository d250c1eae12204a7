"""A run that goes on keeps what the first one had finished, at whatever moment the runs between were ended."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from suites import Suite, states

from kernel_matrix.job.journal import Journal
from kernel_matrix.run import suite_tests
from kernel_matrix.run.job_run import JobRun, Preparation
from kernel_matrix.run.proven import KEY, Mark, mark_file
from kernel_matrix.run.supervise import Supervisor

TESTS = """
import pathlib, time

def test_one():
    with open({note!r}, "a") as file:
        file.write("x")

def test_two():
    first = pathlib.Path({note!r} + ".first")
    if not first.exists():
        first.touch()
        time.sleep(600)
"""
# What a run that goes on does next when it is ended, in the order in which it does it.
MOMENTS = [
    (suite_tests, "_list_of"),
    (Preparation, "make_environment"),
    (Supervisor, "_begin"),
    (Journal, "begin"),
    (Mark, "__init__"),
    (Journal, "take_place"),
    (Mark, "take_place"),
    (Supervisor, "_run_process"),
]


def ended(suite: Suite, monkeypatch: pytest.MonkeyPatch, place: object, name: str, end: Callable[..., None]) -> None:
    """Run the suite in a process that ends in the middle of a function, without a word, as by a node that fails."""
    if child := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        return
    try:
        monkeypatch.setattr(place, name, end)
        suite.run(resume=True)
    finally:
        os._exit(1)


def die(*_: object, **__: object) -> None:
    os._exit(9)


def die_after_one(suite: Suite) -> Callable[[Mark, Journal], None]:
    """Return what notes that the end of the first test is proven, and ends the process then."""
    take_note, journal = Mark.note, suite.root / "build" / "jobs" / "here.plain" / "journal.jsonl"

    def note(mark: Mark, of: Journal) -> None:
        take_note(mark, of)
        if journal.exists() and '"end"' in journal.read_text() and of.proven == journal.stat().st_size:
            die()

    return note


@pytest.mark.parametrize("on_another_node", [False, True])
def test_what_was_finished_is_kept_whenever_the_next_runs_are_ended(tmp_path, monkeypatch, on_another_node):
    if on_another_node:
        monkeypatch.setenv(KEY, "k" * 64)
    note = tmp_path / "note"
    suite = Suite.made(tmp_path / "thing", {"tests/test_a.py": TESTS.format(note=str(note))})
    ended(suite, monkeypatch, Mark, "note", die_after_one(suite))
    for place, name in MOMENTS:
        if on_another_node:  # the marks of a machine stay there
            for path in mark_file(suite.root / "build", "here.plain").parent.glob("here.plain*"):
                path.unlink()
        ended(suite, monkeypatch, place, name, die)
    assert states(suite.run(resume=True)) == {"test_a/test_one": "held", "test_a/test_two": "held"}
    assert note.read_text() == "x", "the test that had ended ran again"


def test_a_run_that_is_ended_before_its_job_begins_leaves_what_the_first_one_had_finished(tmp_path, monkeypatch):
    suite = Suite.made(tmp_path / "thing", {"tests/test_a.py": TESTS.format(note=str(tmp_path / "note"))})
    ended(suite, monkeypatch, Mark, "note", die_after_one(suite))
    make, makes = Preparation.make_environment, [True]

    def interrupted(self: Preparation, run: JobRun) -> None:
        is_to_run = bool(run.request.tests)  # else they are collected
        if makes[0] or not is_to_run:
            make(self, run)
        if is_to_run:
            raise KeyboardInterrupt

    monkeypatch.setattr(Preparation, "make_environment", interrupted)
    for makes[0] in (True, False):
        with pytest.raises(KeyboardInterrupt):
            suite.run(resume=True)
        ends = {record.case.rpartition("/")[2]: (record.outcome, record.stage) for record in suite.results().records}
        assert ends == {"test_one": ("pass", ""), "test_two": ("missing", "")}
