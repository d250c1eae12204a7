"""The steps of the judge run in the order of their numbers, and are written as the rest of the code is."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest
from common import ROOT
from loops import at_least

from kernel_matrix.judge import verdicts
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.store.database import database
from kernel_matrix.store.records import Jobs
from kernel_matrix.store.sampled import Samples
from kernel_matrix.store.validation import Bounds

STEPS = Path(verdicts.__file__).parent / "steps"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Judge nothing, once with results of persons outside, and return the steps of each pass."""
    passes: list[list[str]] = []

    def note(_: object, *names: str) -> None:
        if "00_macros" in names:
            passes.append([])
        passes[-1] += names

    for name in (
        "enter_plan",
        "enter_stale_jobs",
        "enter_misplaced",
        "enter_wrong_samples",
        "enter_rules",
        "enter_sentences",
    ):
        monkeypatch.setattr(verdicts, name, lambda *_: None)
    monkeypatch.setattr(verdicts, "enter_code_limits", lambda *_: True)
    monkeypatch.setattr(verdicts, "_step", note)
    with database() as connection:
        connection.execute("INSERT INTO told VALUES (1)")
        connection.execute("INSERT INTO sources VALUES (1, 'a.jsonl', NULL)")
        judge(connection, None, Jobs(connection), None, Samples(Bounds()), limits=[None])  # type: ignore[arg-type, list-item]
    return passes


def test_every_step_runs_in_the_order_of_its_number(ran):
    assert len(ran) == 2, "the results of persons outside are judged alone, and before the project's"
    for steps in ran:
        assert steps == sorted(steps)
        assert len({*steps}) == len(steps) > 10
    assert {*ran[0], *ran[1]} == {path.stem for path in STEPS.glob("*.sql")}


def test_the_steps_are_numbered_without_a_gap_and_none_has_the_number_of_another():
    numbers = sorted(int(path.name[:2]) for path in at_least(10, STEPS.iterdir()))
    assert numbers == [*range(len(numbers))]


def test_what_a_step_makes_no_earlier_step_uses():
    """A table is made before it is asked, so a reader meets each name where it is defined."""
    texts = [re.sub(r"--[^\n]*", "", path.read_text()) for path in sorted(at_least(10, STEPS.iterdir()))]
    made = [re.findall(r"CREATE OR REPLACE TEMP (?:TABLE|VIEW|MACRO) (\w+)", text) for text in texts]
    assert sum(map(len, made)) > 30
    early = [
        name
        for number, text in enumerate(texts)
        for name in chain(*made[number + 1 :])
        if re.search(rf"(?:FROM|JOIN) {name}\b", text)
    ]
    assert early == []


def test_sql_has_at_most_120_columns_and_no_space_at_the_end():
    folders = (ROOT / name for name in ("src", "tests", "ci", "benchmarks"))
    paths = at_least(15, (path for folder in folders for path in folder.rglob("*.sql")))
    lines = [(path.name, number, line) for path in paths for number, line in enumerate(path.read_text().split("\n"), 1)]
    assert [(name, number) for name, number, line in lines if len(line) > 120 or line != line.rstrip()] == []
    assert [path.name for path in paths if "\t" in path.read_text() or not path.read_text().endswith("\n")] == []
