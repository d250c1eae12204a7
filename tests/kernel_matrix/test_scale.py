"""Made-up results are as the harness writes them, reach every state, and are judged alike on all roads."""

from __future__ import annotations

from collections import Counter

import pytest
from conftest import ROOT
from test_columns import comparable, expected_of, same_cells, verdicts_of

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.lab import scale, scale_measure
from kernel_matrix.lab.scale import Scale
from kernel_matrix.results.collect import collect
from kernel_matrix.results.columns import own_form
from kernel_matrix.results.columns.cells import cells
from kernel_matrix.results.columns.database import database
from kernel_matrix.results.columns.load import load
from kernel_matrix.results.columns.planned import of_plan
from kernel_matrix.results.columns.present import present_of
from kernel_matrix.results.compare import compare
from kernel_matrix.results.present import present
from kernel_matrix.results.validation import Bounds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project():
    return pipeline.load(ROOT / "matrix.yaml")


@pytest.fixture(scope="module")
def like():
    return collect([ROOT / "docs" / "results"]).records


@pytest.fixture(scope="module")
def made(project, like, tmp_path_factory):
    return scale.make(project.matrix, like, Scale(2160, 9), tmp_path_factory.mktemp("made") / "up", tables=True)


def judged(made, folder):
    """Return both roads over one folder of the made-up results."""
    project = pipeline.load(made.matrix)
    plan, collected = pipeline.plan(project, "quick"), collect([folder])
    comparison = compare(plan, collected.records, present(project.matrix, project.root, collected.records))
    with database() as connection:
        loaded = load(connection, [folder])
        planned = of_plan(plan)
        judge(connection, planned, present_of(connection, project.matrix, project.root, loaded.files))
        assert loaded.files == collected.files
        assert comparable(verdicts_of(connection)) == comparable(expected_of(plan, comparison))
        same_cells(comparison, planned, cells(connection, planned))
    return comparison


def test_made_up_results_are_judged_alike_from_junit_and_from_tables(made):
    of_junit, of_tables = judged(made, made.results), judged(made, made.results.parent / "tables")
    assert of_junit.counts == of_tables.counts
    assert sum(of_junit.counts.values()) == 2160
    states = ("pass", "compiled", "error", "known", "fail", "flaky", "unavailable", "excluded", "missing")
    assert not {*states} - {*of_junit.counts}
    assert Counter(bool(v.stale) for cell in of_junit.cells for v in cell.cases)[False] > 1500


def test_made_up_files_have_the_form_that_the_harness_writes(made):
    files = sorted(made.results.glob("*.xml"))
    assert len(files) == made.files == 9
    assert sum(own_form.read(path.read_bytes(), Bounds()).cases.num_rows for path in files) == made.cases


def test_a_size_that_no_matrix_has_is_refused(project, like, tmp_path):
    with pytest.raises(UserError, match="10 jobs have at least 2400 cases"):
        scale.make(project.matrix, like, Scale(100, 10), tmp_path)


def test_every_road_is_measured(made):
    lines = list(scale_measure.measure(made.matrix.parent, scale_measure.ROADS))
    assert [line.partition(":")[0] for line in lines] == [*scale_measure.ROADS]
    assert all("2160 cases in " in line for line in lines)
    with pytest.raises(UserError, match="the roads are objects, junit, tables"):
        list(scale_measure.measure(made.matrix.parent, ["fast"]))
