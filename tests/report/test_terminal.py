"""The closing lines in a terminal: an error that several cases share is told once."""

from __future__ import annotations

import judges
import pytest
from common import few_cells
from suites import Suite

from kernel_matrix import judging, pipeline
from kernel_matrix.config.plan import plan
from kernel_matrix.config.selection import Selection
from kernel_matrix.diagnosis.rule import harness_rules
from kernel_matrix.report import terminal
from kernel_matrix.store.record import Record


@pytest.fixture(scope="module")
def lines(matrix):
    """Return the lines about four cases: three of two cells share an error, and one is wrong."""
    planned = few_cells(plan(matrix, "quick"))
    one, other, third = (job for job in planned.jobs[:3])
    lost = "ImportError: add the library:\n  pip install ipdb"
    records = [Record(case.id, "error", stage="import", message=lost) for case in (*one.cases[:2], other.cases[0])]
    records.append(Record(third.cases[0].id, "error", stage="launch", message=lost))
    with judges.judged(planned, records) as judged:
        return [record.case for record in records], list(terminal.summary(matrix, judged, tuple))


def test_a_shared_error_has_its_words_once_and_each_case_is_named(lines):
    (first, second, elsewhere, launched), said = lines
    at = said.index(f"error in import: {first}\n  ImportError: add the library: pip install ipdb")
    assert said[at + 2].startswith("  repeat it: ")
    for case in (second, elsewhere):
        assert f"error in import: {case}: as {first}" in said
    assert any(line.startswith(f"error in launch: {launched}\n") for line in said), "another stage is another error"
    assert sum("pip install ipdb" in line for line in said) == 2


def test_an_error_is_told_beside_many_failures_also_where_only_the_report_finds_it(matrix):
    planned = few_cells(plan(matrix, "quick"))
    by_cell: dict[str, list[str]] = {}
    for case in planned.cases:
        by_cell.setdefault(case.cell.id, []).append(case.id)
    cell, cases = max(by_cell.items(), key=lambda item: len(item[1]))
    records = [Record(case, "fail", "run", message="y: far off", metrics={"y.rel_fro": 1.0}) for case in cases[:-2]]
    records.append(Record(cases[-2], "pass", "run", metrics={"elements": 8.0}))
    with judges.judged(planned, records) as judged:
        said = list(terminal.summary(matrix, judged, harness_rules))
    at = next(place for place, line in enumerate(said) if line.startswith(f"error: {cases[-2]}\n"))
    assert "the record owes the figures of" in said[at]
    assert said[at + 1].startswith("  cause: The outputs that matrix.yaml names")
    [more] = [line for line in said if line.startswith(f"  and {len(cases) - 3} more of {cell}: ")]
    assert more.endswith("; the page has those that are red in no table")


def test_a_summary_gives_a_wrong_number_its_cause_and_leaves_out_what_is_not_there(matrix, tmp_path):
    planned = few_cells(plan(matrix, "quick"))
    wrong = "kernel_matrix.job.case.OutOfBudgetError: y: max_abs 0.1 is over 0.01"
    records = [Record(planned.cases[0].id, "fail", "run", message=wrong, metrics={"y.rel_fro": 1.0})]
    records.append(Record(planned.cases[1].id, "pass", "compile"))
    judges.write_site(matrix, planned, records, tmp_path)
    text = (tmp_path / "summary.md").read_text()
    assert "Cause: A number is outside its error budget." in text
    assert "no rule of the diagnosis" not in text
    assert "- cause not known (1 case): " in text


def test_a_case_without_a_result_is_told_what_goes_on_where_a_run_was_killed(matrix):
    with judges.judged(few_cells(plan(matrix, "quick")), []) as judged:
        said = list(terminal.summary(matrix, judged, harness_rules))
    assert any("no result came" in line for line in said)
    assert any("kernel-matrix run --resume" in line for line in said)


@pytest.mark.slow
def test_cases_that_held_without_a_comparison_are_told(tmp_path):
    source = "import numpy as np\nx = np.linspace(1, 2, 64)\ndef test_it(): assert np.allclose(x, x.copy())\n"
    suite = Suite.made(tmp_path, {"tests/test_a.py": source, "tests/test_b.py": "def test_it(): pass\n"})
    suite.run()
    project = suite.collected()
    with judging.judged(project, pipeline.select(project, Selection()).plan, [project.results]) as judged:
        said = [*terminal.summary(project.matrix, judged, tuple)]
    assert [line for line in said if line.startswith("No comparison of arrays was seen in 1 of 2 cases that held: ")], (
        said
    )
