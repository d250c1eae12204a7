"""A row that a report gathers leaves nothing unsaid but that all of its cases passed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from suites import Suite

from kernel_matrix import pipeline
from kernel_matrix.config.model import Expectation
from kernel_matrix.results.passed import passed_at_once
from kernel_matrix.results.states import CAUGHT, INJECTED
from kernel_matrix.store import write
from kernel_matrix.store.record import Record

EXPECTED = Expectation.model_construct(outcome="fail", match="wrong")


@pytest.mark.parametrize(
    ("changed", "facts", "tables", "passed"),
    [
        ({}, {}, False, True),
        ({}, {INJECTED: "3", CAUGHT: "3"}, False, True),
        ({}, {INJECTED: "3", CAUGHT: "2"}, False, False),
        ({}, {}, True, False),  # a large job: its tables are for the judge
        *(({"outcome": end}, {}, False, False) for end in ("fail", "error", "unavailable", "missing", "excluded")),
        ({"attempts": ("fail",)}, {}, False, False),  # it is flaky
        ({"case": "of another plan"}, {}, False, False),
    ],
)  # fmt: skip
def test_only_cases_that_passed_at_once_need_no_word(tmp_path, changed, facts, tables, passed):
    project = pipeline.load(Suite.made(tmp_path, {}).root / "matrix.yaml")
    [case] = pipeline.plan(project, "full").cases
    record = replace(Record(case.id, "pass", "run"), **changed)
    file = write.replace(tmp_path / "results", {"job": "here.plain", **facts}, [record], as_tables=tables)
    assert passed_at_once([file], [case]) is passed
    assert not passed_at_once([file], [replace(case, expectations=(EXPECTED,))]), "it was expected to fail"
    assert not passed_at_once([], [case])
