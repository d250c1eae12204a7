"""A run writes the tables of its jobs, and every command reads a folder that has nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import CPU, Doubles, Silent, harness
from test_audit import one_op, whole  # noqa: F401  fixtures
from test_compare import TRITON, case_of

from kernel_matrix import pipeline
from kernel_matrix.audit import raw
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import plan
from kernel_matrix.config.selection import Selection
from kernel_matrix.results import junit
from kernel_matrix.results.collect import collect
from kernel_matrix.results.present import present
from kernel_matrix.results.tables import names
from kernel_matrix.results.tables.write import write_all
from kernel_matrix.run import schedule
from kernel_matrix.run.settings import Settings
from kernel_matrix.vendors.machine import Machine

HERE = Machine((CPU,))


class Seen(Silent):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def job(self, job: str, text: str) -> None:
        self.texts.append(text)


def run(doubles: Doubles, *, resume: bool = False) -> tuple[Path, list[str]]:
    """Run the jobs of one toolchain, and return the folder of the results with what the progress said."""
    project = pipeline.load(doubles.root / "matrix.yaml")
    selected = pipeline.select(project, Selection(toolchains=("good",)))
    seen = Seen()
    settings = Settings(project.root, project.build, "current", resume=resume)
    pipeline.run(project, selected.jobs, HERE, settings, seen)
    return project.results, seen.texts


def options(doubles: Doubles, *words: str) -> list[str]:
    return ["--matrix", str(doubles.root / "matrix.yaml"), "--build", str(doubles.root / "build"), *words]


@pytest.mark.slow
def test_a_run_leaves_the_same_records_in_both_forms_and_a_second_run_replaces_them(doubles):
    folder, _ = run(doubles)
    [first] = names.find(folder)
    of_xml = collect([folder / "here.good.xml"]).records
    assert len(of_xml) == 3
    assert any(record.samples for record in of_xml)
    assert collect([folder]).records == collect([first.path("jobs")]).records == of_xml
    run(doubles)
    [second] = names.find(folder)
    assert second.name != first.name


class StoppedError(Exception):
    pass


@pytest.mark.slow
def test_before_a_run_the_tables_of_its_jobs_are_deleted_unless_it_resumes(doubles, monkeypatch):
    folder, _ = run(doubles)
    [files] = names.find(folder)
    copies = [(path, path.read_bytes()) for path in files.paths]

    def stop(*_: object) -> None:
        raise StoppedError

    monkeypatch.setattr(schedule, "Preparation", stop)
    with pytest.raises(StoppedError):
        run(doubles, resume=True)
    assert names.find(folder) == [files]
    with locked(doubles.root / "build" / "jobs" / "here.good.lock"), pytest.raises(UserError):
        run(doubles)
    assert names.find(folder) == [files], "another run is at it"
    with pytest.raises(StoppedError):
        run(doubles)
    assert list(folder.rglob("*.*")) == []
    for path, content in copies:
        path.write_bytes(content)
    assert len(collect([files.path("jobs")]).records) == 3


def test_the_tables_of_a_job_are_there_when_its_result_is_and_its_lock_is_taken_once(doubles, monkeypatch):
    taken, seen = [], []
    real = schedule.locked
    monkeypatch.setattr(schedule, "locked", lambda path: taken.append(path.name) or real(path))
    project = pipeline.load(doubles.root / "matrix.yaml")
    selected = pipeline.select(project, Selection(toolchains=("good",)))
    settings = Settings(project.root, project.build, "current")

    def look(result: Path) -> None:
        with pytest.raises(BusyError), locked(project.build / "jobs" / "here.good.lock"):
            pass
        seen.append((result.name, [files.job for files in names.find(result.parent)]))

    schedule.run(project.matrix, selected.jobs, HERE, settings, Seen(), look)
    assert seen == [("here.good.xml", ["here.good"])]
    assert taken == ["here.good.lock"]


@pytest.mark.slow
def test_a_run_that_may_not_start_keeps_the_results_of_the_other(doubles):
    folder, _ = run(doubles)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with locked(doubles.root / "build" / "jobs" / "here.good.lock"), pytest.raises(UserError, match="another run"):
        run(doubles)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_where_the_tables_cannot_be_written_the_junit_file_counts_and_the_run_says_so(doubles):
    results = doubles.root / "build" / "results"
    results.mkdir(parents=True)
    (results / "samples").write_text("no folder")
    folder, texts = run(doubles)
    assert [text for text in texts if text.startswith("its tables are not written, and its JUnit file is there: ")]
    assert len(collect([folder]).records) == 3


@pytest.mark.slow
def test_a_python_that_cannot_import_pyarrow_keeps_the_junit_file_and_the_run_says_so(doubles, monkeypatch):
    monkeypatch.setitem(sys.modules, "kernel_matrix.results.tables.write", None)
    folder, texts = run(doubles)
    [text] = [text for text in texts if text.startswith("its tables are not written, and its JUnit file is there: ")]
    assert "this Python cannot import pyarrow" in text
    assert len(junit.read(folder / "here.good.xml")) == 3


@pytest.mark.slow
def test_every_command_reads_a_folder_that_has_tables_alone(here: Doubles, tmp_path):
    done = harness("run", *options(here, "--executor", "current", "--toolchain", "good", "--toolchain", "wrong"))
    assert done.returncode == 1, done.stderr
    results, kept = here.root / "build" / "results", tmp_path / "kept"
    for table in names.TABLES:
        shutil.copytree(results / table, kept / table)
    cells = [f"here/{here.matrix.platforms['here'].targets[0]}/{name}/double.forward" for name in ("good", "wrong")]
    for command in (
        ("repro", cells[1]),
        ("compare", *cells),
        ("audit",),
        ("report",),
        ("report", "--history", str(kept)),
    ):
        answers = []
        for folder in (results, kept):
            harness("report", *options(here), str(folder))
            answer = harness(command[0], *options(here), *command[1:], str(folder))
            answers.append((answer.returncode, answer.stdout, answer.stderr))
        assert answers[0] == answers[1], command
        assert answers[0][0] in (0, 1), answers
    difference = harness("diff", *options(here), str(results), str(kept))
    assert (difference.returncode, difference.stderr) == (0, "")


def test_the_audit_reads_tables_by_a_road_of_its_own(whole, tmp_path):  # noqa: F811
    _, files, _ = whole
    records = [record for record in collect(files).records if "job" in record.job]
    write_all(tmp_path, records)
    of_xml = raw.read(files)
    of_tables = raw.read(collect([tmp_path]).files)
    assert of_tables.keys() == {record.case for record in records}
    for case, [one] in of_tables.items():
        others = [other._replace(file=one.file) for other in of_xml[case]]
        assert one in others, case


def test_tables_in_a_checkout_do_not_count_as_changed_files(doubles: Doubles, passing, matrix: Matrix):
    git = ("git", "-C", str(doubles.root), "-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "all")):
        subprocess.run([*git, *command], check=True)
    revision = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout[:12]
    record = passing(case_of(plan(matrix, "quick"), TRITON))
    record = replace(record, job={**record.job, "job": "here.good", "commit": revision})
    write_all(doubles.root / "suite" / "kept", [record])
    collected = collect([doubles.root / "suite" / "kept"])
    for files, everything in (((), "suite/kept/cases"), (collected.paths, "")):
        state = present(doubles.matrix, doubles.root, collected.records, files)
        assert state.changed[revision].everything.startswith(everything)
        assert bool(state.changed[revision].everything) == bool(everything)
