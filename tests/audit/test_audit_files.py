"""The audit finds the files that count by itself: it names a report that ignored one, or counted a copy twice."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from common import copy_doubles
from judges import audited

from kernel_matrix import judging, pipeline
from kernel_matrix.audit.files import choose
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.pipeline import Project
from kernel_matrix.store import load
from kernel_matrix.store import records as insert


@pytest.fixture(scope="module")
def ran(tmp_path_factory, bytecode) -> Path:
    """Return a folder of doubles with the results of two toolchains."""
    doubles = copy_doubles(tmp_path_factory.mktemp("ran") / "doubles", bytecode)
    doubles.run("good", "wrong")
    return doubles.root


@pytest.fixture
def project(ran, tmp_path) -> Project:
    shutil.copytree(ran, tmp_path / "copy", symlinks=True)
    return pipeline.load(tmp_path / "copy" / "matrix.yaml")


def differences(project: Project, reported: Path) -> list[str]:
    """Report some results, and audit the page with all that are there."""
    planned = pipeline.plan(project, "quick")
    with judging.judged(project, planned, [reported]) as judged:
        write_dashboard(project, judged)
    return audited(project, planned)


def table_of(project: Project, toolchain: str) -> Path:
    [path] = (project.results / "jobs").glob(f"here.{toolchain}-*.parquet")
    return path


def copy_of(project: Project, toolchain: str) -> None:
    """Copy the tables of a job into another folder of results."""
    for table in ("jobs", "cases", "outputs", "samples"):
        folder = project.results / "again" / table
        folder.mkdir(parents=True)
        for path in (project.results / table).glob(f"here.{toolchain}-*"):
            shutil.copy(path, folder)


@pytest.mark.slow
def test_a_report_of_all_files_has_no_difference_and_copies_count_once(project):
    copy_of(project, "wrong")
    assert differences(project, project.results) == []


@pytest.mark.slow
def test_a_report_that_ignored_a_file_is_named(project):
    found = differences(project, table_of(project, "good"))
    assert any("here/any/wrong/double.forward" in text and "missing is shown" in text for text in found), found


@pytest.mark.slow
def test_a_report_that_counted_a_copy_twice_is_named(project, monkeypatch):
    """The page counts results of cases that are planned no longer, one by one."""
    path = project.root / "matrix.yaml"
    path.write_text(path.read_text().replace("tokens: [1, 2, 3]", "tokens: [1, 2]"))
    project = pipeline.load(path)
    copy_of(project, "wrong")
    assert differences(project, project.results) == []

    def every(loading: load._Loading, ordered: Sequence[Path]) -> tuple[Path, ...]:
        insert.make_present(loading.connection, [loading.known[path] for path in ordered])
        return tuple(ordered)

    monkeypatch.setattr(load._Loading, "present", every)
    found = differences(project, project.results)
    assert "compat.json: run.unplanned: 3 is shown, and the results make 2" in found, found


@pytest.mark.slow
def test_a_file_that_cannot_be_read_is_a_difference_where_the_page_says_nothing_of_it(project):
    table_of(project, "wrong").write_bytes(b"PAR1 no more")
    assert differences(project, project.results) == [], "the page says that it was refused"
    found = differences(project, table_of(project, "good"))
    assert any("a file that cannot be read" in text for text in found), found


def says(chosen):
    """Return what the chosen files say, without the paths that tell their jobs apart."""
    return {case: [raw._replace(run="") for raw in raws] for case, raws in chosen.by_case.items()}


@pytest.mark.slow
def test_nothing_behind_a_link_counts_and_no_file_that_the_page_says_was_refused(project):
    whole = choose([project.results], ())
    copy_of(project, "good")
    (project.results / "link").symlink_to(project.results / "again")
    assert says(choose([project.results], ())) == says(whole), "one of two equal files counts"
    shutil.rmtree(project.results / "again")
    sentence = f"elsewhere/jobs/{table_of(project, 'good').name}: refused: it is too large."
    told = choose([project.results], [sentence])
    assert {case.split("/")[2] for case in told.by_case} == {"wrong"}
    assert told.silent == ()
