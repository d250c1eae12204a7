"""A report with a database that is kept writes only the files of cells that say something else than before."""

from __future__ import annotations

from random import Random

import pytest
from shown import Page
from test_columns import enter
from test_report_of_columns import NOW, without_chunks
from worlds import world

from kernel_matrix.diagnosis import harness_rules
from kernel_matrix.report import from_columns, page_cells
from kernel_matrix.report import site as sites
from kernel_matrix.report.page_rows import PageRows
from kernel_matrix.results.columns.database import database
from kernel_matrix.results.columns.insert import add_records
from kernel_matrix.results.columns.judged import Judged
from kernel_matrix.results.columns.load import Loaded
from kernel_matrix.results.columns.planned import of_plan
from kernel_matrix.results.columns.records import Jobs
from kernel_matrix.results.columns.sampled import Samples
from kernel_matrix.judge.verdicts import judge
from kernel_matrix.results.validation import Bounds


class Reports:
    """Reports of one plan from one database."""

    def __init__(self, connection, matrix, plan, presence):
        self.connection, self.matrix, self.plan, self.presence = connection, matrix, plan, presence
        self.rules = harness_rules()

    def write(self, site, *, is_kept):
        planned = of_plan(self.plan)
        judge(self.connection, planned, self.presence, is_kept=is_kept)
        loaded = Loaded((), (), {}, (), Samples(Bounds()))
        judged = Judged(
            self.connection, planned, self.plan.package, self.plan.tier, loaded, Jobs(self.connection), is_kept=is_kept
        )
        sources = from_columns.Sources(self.matrix, judged, self.rules)
        sites.write(from_columns.document(sources, now=NOW), site, pages=PageRows(sources))
        return Page(site)

    def same(self, tmp_path):
        """Write a site with what is kept and one without, hold them to each other, and return what stayed."""
        files = tmp_path / "kept" / "data" / "cells"
        before = {path.name: path.stat().st_mtime_ns for path in files.glob("*.js")}
        kept, new = self.write(tmp_path / "kept", is_kept=True), self.write(tmp_path / "new", is_kept=False)
        assert kept.cells == new.cells
        assert without_chunks(kept.rows) == without_chunks(new.rows)
        assert {**kept.overview, "cells": 0} == {**new.overview, "cells": 0}
        after = {path.name: path.stat().st_mtime_ns for path in files.glob("*.js")}
        return {name for name, number in before.items() if after.get(name) == number}, set(after)


@pytest.fixture(scope="module", autouse=True)
def small_chunks():
    """Let a page of some hundred cases have several files of cells."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_cells, "CHUNK", 3_000)
        yield


@pytest.fixture(scope="module")
def reports(matrix, tmp_path_factory):
    """Return reports of a world of which the last file did not come yet, and that file."""
    op, toolchain = (next(iter(section.values())) for section in (matrix.ops, matrix.toolchains))
    matrix = matrix.model_copy(update={"ops": {"op": op}, "toolchains": {"one": toolchain, "two": toolchain}})
    plan, files, presence = world(Random(3))
    with database(tmp_path_factory.mktemp("reports") / "kept.duckdb", Bounds()) as connection:
        enter(connection, files[:-1])
        yield Reports(connection, matrix, plan, presence), files[-1]


@pytest.mark.slow
def test_files_of_cells_that_say_the_same_are_not_written_again(reports, tmp_path):
    made, last = reports
    assert made.same(tmp_path)[0] == set()
    stayed, files = made.same(tmp_path)
    assert stayed == files
    assert len(files) > 2
    add_records(made.connection, "last", last)
    stayed, files = made.same(tmp_path)
    assert set() < stayed < files


@pytest.fixture(scope="module")
def sites_folder(reports, tmp_path_factory):
    """Return a folder with a site as it is kept. After each change the site is up to date again."""
    folder = tmp_path_factory.mktemp("sites")
    reports[0].write(folder / "kept", is_kept=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("change", ["rules", "matrix", "file", "no file", "database"])
def test_a_file_is_written_again_if_anything_that_it_is_made_from_has_changed(reports, sites_folder, change):
    made, _ = reports
    file = sites_folder / "kept" / "data" / "cells" / "0.js"
    before = file.stat().st_mtime_ns
    match change:
        case "rules":
            made.rules = tuple(rule.model_copy(update={"cause": "Another cause."}) for rule in made.rules)
        case "matrix":
            package = made.matrix.package.model_copy(update={"name": "another"})
            made.matrix = made.matrix.model_copy(update={"package": package})
        case "file":
            file.write_text(file.read_text() + " ")
        case "no file":
            file.unlink()
        case "database":
            made.connection.execute("DELETE FROM pages").fetchall()
    made.same(sites_folder)
    assert file.stat().st_mtime_ns != before
