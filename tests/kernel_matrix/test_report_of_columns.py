"""A report that is made from columns says what a report of objects says, to the last character."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from random import Random

import pytest
from shown import Page
from test_columns import enter
from worlds import world

from kernel_matrix.diagnosis import harness_rules
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.report import from_columns
from kernel_matrix.report import site as sites
from kernel_matrix.report.from_comparison import document
from kernel_matrix.report.page_rows import PageRows
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.columns.database import database
from kernel_matrix.results.columns.judged import Judged
from kernel_matrix.results.columns.load import Loaded
from kernel_matrix.results.columns.planned import of_plan
from kernel_matrix.results.columns.records import Jobs
from kernel_matrix.results.columns.sampled import Samples
from kernel_matrix.results.compare import compare
from kernel_matrix.results.validation import STREAMED, Bounds

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
FILES = ("compat.json", "compat.csv", "summary.md", "badge.json", "grid-light.svg")


def same_sites(tmp_path, of_objects, sources):
    """Write both sites, and hold them to each other."""
    of_columns = from_columns.document(sources, now=NOW)
    sites.write(of_objects, tmp_path / "objects")
    sites.write(of_columns, tmp_path / "columns", pages=PageRows(sources))
    for file in FILES:
        assert (tmp_path / "columns" / file).read_text() == (tmp_path / "objects" / file).read_text(), file
    one, other = Page(tmp_path / "objects"), Page(tmp_path / "columns")
    for cell, wanted in one.cells.items():
        for name, result in wanted["results"].items():
            assert other.cells[cell]["results"][name] == result, f"{cell}/{name}"
    assert other.cells == one.cells
    assert without_chunks(other.rows) == without_chunks(one.rows)
    assert {**other.overview, "cells": 0, "texts": 0} == {**one.overview, "cells": 0, "texts": 0}


def without_chunks(rows):
    """Leave out which file has a cell's details: a file ends after some bytes, and equal figures differ in them."""
    return {cell: {key: value for key, value in row.items() if key != "chunk"} for cell, row in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_worlds_at_random_make_the_same_site_in_both_ways(matrix, tmp_path, seed):
    plan, files, presence = world(Random(seed))
    op, toolchain = (next(iter(section.values())) for section in (matrix.ops, matrix.toolchains))
    matrix = matrix.model_copy(update={"ops": {"op": op}, "toolchains": {"one": toolchain, "two": toolchain}})
    files = [[_with_other_figures(record) for record in file] for file in files]
    records = [record for file in files for record in file]
    comparison = compare(plan, records, presence)
    of_objects = document(matrix, comparison, Collected((), tuple(records), ()), harness_rules(), now=NOW)
    with database() as connection:
        enter(connection, files)
        planned = of_plan(plan)
        judge(connection, planned, presence)
        loaded = Loaded((), (), {}, (), Samples(Bounds()))
        judged = Judged(connection, planned, plan.package, plan.tier, loaded, Jobs(connection), notes=comparison.notes)
        same_sites(tmp_path, of_objects, from_columns.Sources(matrix, judged, harness_rules()))


def _with_other_figures(record):
    """Return a record with figures that have no column of their own, and what code it made."""
    if record.action != "run":
        return record
    others = {f"{name.partition('.')[0]}.other": 1.5 for name in record.metrics if name.endswith(".max_abs")}
    return replace(record, metrics={**record.metrics, **others, "artifact.registers": 12.0})


def test_results_that_are_streamed_have_the_bounds_of_each_file_and_more_files():
    each = {name: value for name, value in asdict(STREAMED).items() if name not in ("files", "all_bytes")}
    assert each == {name: value for name, value in asdict(Bounds()).items() if name in each}
    assert STREAMED.all_bytes > 20 * Bounds().all_bytes
    assert STREAMED.files >= 10_000
