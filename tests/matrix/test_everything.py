"""The whole of what a machine can do: the page fills as jobs end, and what has not changed is not run again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from common import CPU, Doubles, Silent, copy_doubles
from shown import Page

from kernel_matrix import pipeline
from kernel_matrix.config.plan import plan
from kernel_matrix.config.selection import Selection
from kernel_matrix.matrix import everything
from kernel_matrix.matrix.kept import Keeper
from kernel_matrix.results.judged import Judged
from kernel_matrix.run import schedule
from kernel_matrix.run.decide import Decision
from kernel_matrix.run.executors import Request
from kernel_matrix.run.job_command import environment, specification
from kernel_matrix.run.job_run import JobRun
from kernel_matrix.run.schedule import _Schedule
from kernel_matrix.run.settings import Settings
from kernel_matrix.vendors.machine import Machine

HERE = Machine((CPU,))


def commit_all(doubles: Doubles) -> None:
    """Make a commit of all files."""
    git = ("git", "-C", str(doubles.root), "-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("add", "."), ("commit", "-qm", "all")):
        subprocess.run([*git, *command], check=True)


class Seen(Silent):
    """Progress that a test reads."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []

    def job(self, job: str, text: str) -> None:
        self.texts.append((job, text))


def run(doubles: Doubles, *toolchains: str, keep: bool = True, machine: Machine = HERE) -> tuple[list[str], str]:
    """Return the jobs that ran, and the page."""
    project = pipeline.load(doubles.root / "matrix.yaml")
    selected = pipeline.select(project, Selection(toolchains=toolchains))
    seen = Seen()
    everything.run_everything(
        project,
        selected,
        machine,
        Settings(project.root, project.build, "current"),
        seen,
        on_judged=lambda judged: None,
        keeper=Keeper(project, machine) if keep else None,
    )
    ran = [job for job, text in seen.texts if text == "running"]
    return ran, Page(project.site).overview["run_notes"]["kept"]


@dataclass(frozen=True)
class Ended:
    """A run of two jobs that has ended: the doubles in a git checkout, a copy of it, the jobs, and the page."""

    doubles: Doubles
    copy: Path
    ran: list[str]
    page: str


@pytest.fixture(scope="module")
def ended(tmp_path_factory, bytecode: Path) -> Ended:
    """Run two jobs once for the tests of this module."""
    folder = tmp_path_factory.mktemp("ended")
    doubles = copy_doubles(folder / "doubles", bytecode)
    (doubles.root / ".gitignore").write_text("build/\n__pycache__/\n")
    subprocess.run(["git", "-C", str(doubles.root), "init", "-q"], check=True)
    commit_all(doubles)
    ran, page = run(doubles, "good", "wrong")
    return Ended(doubles, shutil.copytree(doubles.root, folder / "copy", symlinks=True), ran, page)


@pytest.fixture
def committed(ended: Ended) -> Doubles:
    """Return the doubles as they were after the run, in the same folder: a job depends on where its files are."""
    shutil.rmtree(ended.doubles.root)
    shutil.copytree(ended.copy, ended.doubles.root, symlinks=True)
    return ended.doubles


@pytest.mark.slow
def test_a_job_of_which_nothing_has_changed_is_not_run_again_and_the_page_says_so(ended, committed):
    assert ended.ran == ["here.good", "here.wrong"]
    assert ended.page == ""
    ran, page = run(committed, "good", "wrong")
    assert ran == ["here.wrong"], "what is red is run again"
    assert "The results of 1 of 2 jobs were kept from earlier runs, the oldest of 2" in page
    ran, page = run(committed, "good", keep=False)
    assert ran == ["here.good"]
    assert page == ""


def is_kept(doubles: Doubles, machine: Machine = HERE, executor: str = "current") -> bool:
    """Return whether a run would keep the results of the toolchain ``good``."""
    project = pipeline.load(doubles.root / "matrix.yaml")
    [job] = pipeline.select(project, Selection(toolchains=("good",))).jobs
    settings = Settings(project.root, project.build, executor)
    depends = everything.made_from(project, settings, machine, Silent(), [job])[job.id]
    return bool(Keeper(project, machine).since(job.id, depends))


# What changes, and its new content or an edit; no content takes the file away.
CHANGES = {
    "the results": (lambda root: next((root / "build" / "results" / "cases").glob("here.good-*")), "none"),
    "no results": (lambda root: next((root / "build" / "results" / "jobs").glob("here.good-*")), None),
    "no samples": (lambda root: next((root / "build" / "results" / "samples").glob("here.good-*")), None),
    "a source file": (lambda root: root / "src" / "doubles" / "__init__.py", "x = 1\n"),
    "the limits of a job": (lambda root: root / "matrix.yaml", {"job: 120": "job: 121"}),
    "the cases": (lambda root: root / "matrix.yaml", {"tokens: [1, 2, 3]": "tokens: [1, 2, 4]"}),
    "the Pythons": (lambda root: root / "matrix.yaml", {"requires: [numpy]": "requires: [numpy], python: '>=3'"}),
}


@pytest.mark.slow
def test_a_job_of_which_something_has_changed_is_run_again(committed, monkeypatch):
    """Ask after each change, which is undone then, whether the results would be kept; and run after the last one."""
    for name, (file_of, text) in CHANGES.items():
        assert is_kept(committed)
        path = file_of(committed.root)
        before = path.read_bytes()
        if isinstance(text, dict):
            [(old, new)] = text.items()
            committed.edit(old, new)
        elif text is None:
            path.unlink()
        else:
            path.write_text(text)
        assert not is_kept(committed), name
        path.write_bytes(before)
    assert is_kept(committed)
    assert not is_kept(committed, Machine((CPU, CPU)))
    assert not is_kept(committed, executor="venv")
    with monkeypatch.context() as patch:
        patch.setenv("PATH", f"/nowhere:{os.environ['PATH']}")
        assert not is_kept(committed)
    with monkeypatch.context() as patch:
        patch.setattr("kernel_matrix.run.job_run.environment_facts", lambda: {"version.numpy": "1.0"})
        assert not is_kept(committed), "this Python has other distributions"
    with (committed.root / "lock.txt").open("a") as lock:
        lock.write("# a lock from which nothing is installed here\n")
    assert is_kept(committed)
    (committed.root / "src" / "doubles" / "new.py").write_text("x = 1\n")
    assert run(committed, "good")[0] == ["here.good"]


@pytest.mark.slow
def test_a_commit_of_files_that_no_job_reads_keeps_results_and_what_the_judge_finds_red_later_is_run_again(committed):
    for name in ("README.md", "tool.py"):
        (committed.root / name).write_text("x = 1\n")
        assert is_kept(committed), "also while no commit has the file"
    committed.edit("title: this machine", "title: another")
    assert is_kept(committed), "no job is given the title"
    commit_all(committed)
    assert is_kept(committed)
    assert run(committed, "good")[0] == []
    [note] = (committed.root / "build" / "kept").glob("*.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Judged, "red", lambda judged, most=None: judged.verdicts()[:most])
        run(committed, "good")
    assert not note.exists()
    assert run(committed, "good")[0] == ["here.good"]


@pytest.mark.slow
def test_without_git_the_files_alone_say_what_is_kept(doubles):
    run(doubles, "good")
    assert is_kept(doubles)
    (doubles.root / "src" / "doubles" / "new.py").write_text("x = 1\n")
    assert not is_kept(doubles)


@pytest.mark.slow
def test_the_page_is_there_when_the_first_job_has_ended_and_says_that_the_run_goes_on(doubles, monkeypatch):
    pages = []

    def recorded(write):
        def record(project, *arguments, **options):
            made = write(project, *arguments, **options)
            pages.append(Page(project.site).overview["run_notes"]["running"])
            return made

        return record

    monkeypatch.setattr(everything, "write_dashboard", recorded(everything.write_dashboard))
    run(doubles, "good", "raises")
    first, last = pages
    assert first == "1 of 2 jobs have ended. What is missing here has not run yet."
    assert last == ""


def job_run(name: str, action: str, *, timed: bool, doubles: Doubles) -> JobRun:
    matrix = doubles.matrix
    [job] = [job for job in plan(matrix, "quick").jobs if job.toolchain == name]
    case = replace(job.cases[0], timed=timed)
    job = replace(job, cases=(case,))
    request = Request(doubles.root, doubles.root / "build", matrix, job, None, print)
    settings = Settings(doubles.root, doubles.root / "build")
    return JobRun(request, settings, Silent(), "current", {case.id: Decision(action=action)})


def test_only_a_job_that_times_something_here_measures(doubles):
    assert job_run("good", "run", timed=True, doubles=doubles).measures
    assert not job_run("good", "compile", timed=True, doubles=doubles).measures
    assert not job_run("good", "run", timed=False, doubles=doubles).measures


def test_waiting_threads_of_a_job_sleep_and_those_of_a_timed_kernel_do_as_by_default(doubles):
    class Here:
        def seen(self, path: Path) -> str:
            return str(path)

    def policy(timed: bool) -> tuple[dict[str, str], list[str]]:
        run = job_run("good", "run", timed=timed, doubles=doubles)
        variables = environment(run.request, Here())
        told = json.loads(specification(run.request, run.actions, run.job.cases))
        names = [name for name in variables if name.startswith(("OMP_", "OPENBLAS_", "MALLOC_"))]
        return {name: variables[name] for name in names}, told["kernel_without"]

    beside, without = policy(timed=False)
    assert (beside["OMP_WAIT_POLICY"], beside["OPENBLAS_NUM_THREADS"]) == ("passive", "1")
    assert without == []
    assert policy(timed=True) == (beside, sorted(beside))
    doubles.edit("environment: { ", "environment: { OMP_WAIT_POLICY: active, ")
    assert policy(timed=True) == ({**beside, "OMP_WAIT_POLICY": "active"}, sorted(beside.keys() - {"OMP_WAIT_POLICY"}))


def test_a_job_runs_while_the_environment_of_another_is_made_and_other_work_ends_before_what_measures(doubles):
    """Each waits for the other: made one after another, none of them would end."""
    runs = [job_run(name, "run", timed=name == "wrong", doubles=doubles) for name in ("good", "raises", "wrong")]
    began, order = threading.Event(), []

    class Prepare:
        def make_environment(self, run: JobRun) -> None:
            if run.job.toolchain == "raises":
                assert began.wait(300), "the first job waits for the environment of the second"

    class Schedule(_Schedule):
        def _finish(self, run: JobRun) -> None:
            began.set()
            order.append(run.job.toolchain)

    Schedule(Prepare(), 2).run(runs, [lambda: order.append("beside")])
    assert sorted(order[:3]) == ["beside", "good", "raises"]
    assert order[3] == "wrong"


@pytest.mark.parametrize(("small", "order"), [(2, ["beside", "good"]), (1, ["good", "beside"])])
def test_other_work_comes_before_small_jobs_so_that_what_ends_the_run_is_short(doubles, monkeypatch, small, order):
    monkeypatch.setattr(schedule, "_SMALL", small)
    ended = []

    class Prepare:
        def make_environment(self, run: JobRun) -> None:
            pass

    class Schedule(_Schedule):
        def _finish(self, run: JobRun) -> None:
            ended.append(run.job.toolchain)

    Schedule(Prepare(), 1).run([job_run("good", "run", timed=False, doubles=doubles)], [lambda: ended.append("beside")])
    assert ended == order
