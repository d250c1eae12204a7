"""A result is stale where its job would read something else today: one rule says what a job reads."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from common import ROOT, Doubles
from judges import audited
from repositories import sh
from ruamel.yaml import YAML

from kernel_matrix import judging, pipeline
from kernel_matrix.base import git
from kernel_matrix.base.syntax import code_of
from kernel_matrix.config import reads
from kernel_matrix.config.file_readers import Concerned, concerned, readers_of
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.reads import Checkout
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.results.present import present
from kernel_matrix.store.load import collect

PLATFORM, OP = "here", "double"


@pytest.fixture
def harness(tmp_path, monkeypatch) -> Path:
    """Return a copy of the harness, which counts as the one that runs."""
    folder = tmp_path / "harness" / "kernel_matrix"
    shutil.copytree(ROOT / "src" / "kernel_matrix", folder, ignore=shutil.ignore_patterns("app", "__pycache__"))
    monkeypatch.setattr(reads, "_HARNESS", folder)
    return folder


@pytest.fixture
def kernels(doubles) -> Doubles:
    """Return the doubles with a folder for each of two backends."""
    doubles.edit("source: src,", "source: src, backends: src/doubles/backends,")
    for backend in ("good", "wrong"):
        folder = doubles.root / "src" / "doubles" / "backends" / backend
        folder.mkdir(parents=True)
        (folder / "kernel.py").write_text("FACTOR = 2\n")
    return doubles


def job_of(doubles: Doubles, toolchain: str = "good", executor: str = "venv", **facts: str) -> dict[str, str]:
    """Return the facts of a job that ran just now."""
    read = Checkout(doubles.matrix, doubles.root).facts_unwatched(PLATFORM, toolchain, executor, [OP])
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    versions = {"version.numpy": "2.0", "started": now, "commit": "no-commit"}
    lock = {"lock.sha256": reads.sha256((doubles.root / "lock.txt").read_bytes()).hexdigest()}
    return {**versions, **lock, "executor": executor, **read, **facts}


def stale(doubles: Doubles, job: dict[str, str], toolchain: str = "good") -> str:
    """Return why the results of a job are stale today; empty if they are not."""
    matrix = Matrix.model_validate(YAML(typ="safe").load((doubles.root / "matrix.yaml").read_text()))  # unchecked
    return present(matrix, doubles.root).stale(PLATFORM, toolchain, job)


def edit(path: Path, text: str = "\nNEW = 1\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + text)


UNREAD_MODULES = (
    *("run/progress.py", "run/schedule.py", "run/job_run.py", "judge/verdicts.py", "vendors/nvidia.py"),
    *("job/suite_plugin.py", "run/container/sandbox.py"),
)
READ_MODULES = (
    *("job/comparison.py", "job/a_module_that_is_new.py", "run/job_command.py", "run/environments/venv.py"),
    "vendors/cpu.py",
)


@pytest.mark.slow
def test_an_edit_of_the_harness_makes_results_stale_where_a_job_reads_it(doubles, harness):
    for module in (*UNREAD_MODULES, *READ_MODULES):
        job = job_of(doubles)
        assert stale(doubles, job) == "", module
        edit(harness / module)
        reason = "its job read another part of the harness" if module in READ_MODULES else ""
        assert stale(doubles, job) == reason, module


@pytest.mark.slow
def test_what_an_image_is_made_from_is_read_in_containers_alone(doubles, harness):
    doubles.edit("device: cpu", "device: cpu\n    container: containers/here/Dockerfile")
    for path in (harness / "run/container/sandbox.py", doubles.root / "containers/here/Dockerfile",
                 doubles.root / "containers/toolchains/Dockerfile"):  # fmt: skip
        inside, outside = job_of(doubles, executor="container"), job_of(doubles)
        edit(path)
        assert stale(doubles, inside) == "its job read another recipe of its image", path
        assert stale(doubles, outside) == "", path


@pytest.mark.slow
def test_an_edit_of_a_backend_makes_the_results_of_its_toolchain_stale_and_no_others(kernels):
    good, wrong = job_of(kernels), job_of(kernels, "wrong")
    edit(kernels.root / "src/doubles/backends/wrong/kernel.py")
    assert stale(kernels, good) == ""
    assert stale(kernels, wrong, "wrong") == "its job read another package"
    edit(kernels.root / "src/doubles/backends/shared.py")
    assert stale(kernels, good) == "its job read another package"


def test_an_emulator_is_read_by_the_jobs_of_the_entry_that_names_it(kernels):
    kernels.edit("toolchains: [good", "toolchains: [{ toolchain: good, emulator: src/emulator }")
    file = kernels.root / "src/emulator/run.cc"
    file.parent.mkdir(parents=True)
    file.write_text("ONE = 1\n")
    readers = readers_of(kernels.matrix, "src/emulator/run.cc")
    assert (readers.part, readers.toolchains, readers.platforms) == ("package", {"good"}, {PLATFORM})
    assert concerned(kernels.matrix, ["src/emulator/run.cc"]) == Concerned(
        entries={(PLATFORM, "good"): "src/emulator/run.cc"}
    )
    before, others = job_of(kernels), job_of(kernels, "wrong")
    file.write_text("TWO = 2\n")
    assert stale(kernels, before) == "its job read another file beside them that git does not track"
    assert stale(kernels, others, "wrong") == ""


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("suite/test_doubles.py", "suite"),
        ("suite/data/numbers.bin", ""),
        ("conftest.py", "suite"),
        ("src/doubles/__init__.py", "package"),
        ("src/doubles/table.toml", ""),
        ("README.md", ""),
        ("suite/README.md", ""),
        ("docs/page.py", ""),
        ("bench/adapter.py", ""),
        ("tests/test_of_the_package_s_own.py", ""),
        ("a-file-that-is-new", ""),
        ("pytest.ini", ""),  # a suite that knows the harness has settings of its own
    ],
)
def test_of_the_repository_a_job_reads_the_package_and_the_suite(doubles, path, part):
    """A new file that is no code may have been written by a job: without git nobody knows."""
    job = job_of(doubles)
    edit(doubles.root / path)
    assert stale(doubles, job) == (f"its job read another {part}" if part else "")


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("suite/data/numbers.bin", "suite"),
        ("src/doubles/table.toml", "package"),
        ("suite/data/caf\udce9.bin", "suite"),  # in Latin-1: the name of a file is any bytes
        ("src/doubles/a b\n\xe9.bin", "package"),
    ],
)
def test_what_git_tracks_counts_whatever_it_is(repository, doubles, path, part):
    job = job_of(doubles)
    edit(repository / path)
    sh(repository, "git", "add", path)
    assert stale(doubles, job) == f"its job read another {part}"
    job = job_of(doubles)
    edit(repository / path)
    assert stale(doubles, job) == f"its job read another {part}"


def test_matrix_yaml_names_files_beside_them_that_jobs_read_and_files_in_them_that_none_reads(doubles):
    doubles.edit("package:", "ci: { read: ['data/*'], unread: [src/doubles/notes.py] }\npackage:")
    job = job_of(doubles)
    edit(doubles.root / "src/doubles/notes.py")
    assert stale(doubles, job) == ""
    edit(doubles.root / "data/numbers.csv")
    assert stale(doubles, job) == "its job read another package"


NEW_PLATFORM = (
    "  there: { title: a new one, device: apple, runner: [macos], targets: [a, b], toolchains: [new, good] }\nops:"
)
# Each edit of matrix.yaml, and what the jobs of ``good`` and of ``wrong`` read of it.
UNREAD = [
    ("  here:\n", "  here:\n    machines: []\n"),
    ("title: this machine", "title: another title"),
    ("runner: [linux]", "runner: [self-hosted, linux]"),
    ("targets: [any]", "targets: [any, new]"),
    ("tokens: [1, 2, 3]", "tokens: [1, 2, 3, 4]"),
    ("ops:\n", "ops:\n  half: { directions: [forward], axes: [tokens], cases: { quick: [{ tokens: 1 }] } }\n"),
    ("axes: [tokens]", "axes: [tokens]\n    outputs: { forward: [out] }"),
    ("ops:", NEW_PLATFORM),
    ("  good: {", "  new: { backend: new, lock: new.txt, requires: [numpy] }\n  good: {"),
    ("toolchains: [good,", "toolchains: [new, { toolchain: good, needs: { g++: planned } },"),
    ("requires: [numpy] }", "requires: ['numpy>=1'] }"),
    ("source: chosen for the tests of the harness", "source: measured on a Tuesday with care"),
    ("baseline: plain NumPy", "baseline: plain and simple NumPy"),
    ("limits:", "ci: { silent_days: 3 }\nlimits:"),
]
OF_GOOD = [
    ("  good: { backend: good,", "  good: { backend: wrong,"),
    ("  good: { backend: good,", "  good: { ahead_of_time: true, backend: good,"),
    ("toolchains: [good,", "toolchains: [{ toolchain: good, emulated: true },"),
    ("toolchains: [good,", "toolchains: [{ toolchain: good, environment: { A: b } },"),
]
OF_BOTH = [
    ("device: cpu", "device: software"),
    ("device: cpu", "device: cpu\n    driver: '580'"),
    ("limit: 1.0e-2", "limit: 2.0e-2"),
    ("job: 120", "job: 121"),
    ("suite: suite", "suite: suites"),
    ("limits:", "container: { memory: 9 }\nlimits:"),
    ("limits:", "installer: { builds_of: numpy }\nlimits:"),
]


@pytest.mark.parametrize(
    ("edits", "readers"),
    [(UNREAD, ()), (OF_GOOD, ("good",)), (OF_BOTH, ("good", "wrong"))],
    ids=["unread", "good", "both"],
)
def test_of_matrix_yaml_a_job_reads_its_own_entries(doubles, edits, readers):
    jobs = {name: job_of(doubles, name) for name in ("good", "wrong")}
    path = doubles.root / "matrix.yaml"
    before = path.read_text()
    for old, new in edits:
        doubles.edit(old, new)
        for name, job in jobs.items():
            assert ("another part of matrix.yaml" in stale(doubles, job, name)) == (name in readers), (name, new)
        path.write_text(before)


def test_other_axes_of_an_operator_give_the_names_of_its_cases_another_meaning(doubles):
    job = job_of(doubles)
    doubles.edit("tokens", "size")
    doubles.edit("axes: [size]", "axes: [size]\n    defaults: { size: 1 }")
    assert stale(doubles, job) == "its job read another axes of double"


def test_comments_and_docstrings_change_nothing_that_a_job_reads(doubles):
    path = doubles.root / "src/doubles/__init__.py"
    path.write_text('"""Say so."""\nFACTOR = 2  # twice\n')
    job = job_of(doubles)
    path.write_text('"""Say it in other words."""\n\n# twice\nFACTOR = (\n    2\n)\n')
    assert stale(doubles, job) == ""
    path.write_text("FACTOR = 3\n")
    assert stale(doubles, job) == "its job read another package"


def test_the_code_of_a_text_is_the_same_with_every_python():
    """The digest was taken with Python 3.10, 3.11, 3.12 and 3.13."""
    text = 'def f(x: int = 1) -> str:\n    """Say so."""\n    return f"{x!r:>{3}} é" "b" if x is None else b"\\0"\n'
    digest = reads.sha256(code_of(text).encode()).hexdigest()
    assert digest == "d729fe0731bf5b119512fa7c5b75eb58fb64ea5397a88edd22e9a71409ed8bce", (
        "kept results have hashes of such texts"
    )


@pytest.mark.slow
def test_uncommitted_changes_count_and_a_commit_alone_makes_nothing_stale(repository, doubles):
    job = job_of(doubles, commit=git.commit(repository))
    edit(repository / "README.md", "text\n")
    assert git.commit(repository).endswith("+changes")
    assert stale(doubles, job) == ""
    edit(repository / "src/doubles/__init__.py")
    assert stale(doubles, job) == "its job read another package"
    dirty = job_of(doubles, commit=git.commit(repository))
    assert stale(doubles, dirty) == "", "it was measured with these changes"
    edit(repository / "src/doubles/__init__.py", "\nNEWER = 2\n")
    assert stale(doubles, dirty), "they are others now, and the name of the commit is the same"


def test_a_result_that_does_not_say_what_its_job_read_is_stale(doubles):
    facts = {name: value for name, value in job_of(doubles).items() if not name.startswith("reads.")}
    assert stale(doubles, facts) == "it does not say what its job read"


@pytest.mark.slow
def test_a_run_writes_what_its_job_read(doubles):
    doubles.run("good")
    [first, *_] = collect([doubles.root / "build" / "results"]).records
    read = Checkout(doubles.matrix, doubles.root).facts_of(PLATFORM, "good", "current", [OP])
    assert {name: value for name, value in first.job.items() if name.startswith("reads.")} == read
    assert stale(doubles, dict(first.job)) == ""
    edit(doubles.root / "suite/kernel_side.py")
    assert stale(doubles, dict(first.job)) == "its job read another suite"


@pytest.mark.slow
def test_the_audit_knows_it_too(doubles):
    doubles.run("good")
    project = pipeline.load(doubles.root / "matrix.yaml")
    with judging.judged(project, pipeline.plan(project, "quick"), [project.results]) as judged:
        assert write_dashboard(project, judged).differences == ()
    edit(doubles.root / "suite/kernel_side.py")
    differences = audited(project, pipeline.plan(project, "quick"))
    assert any("stale" in text for text in differences), differences


def test_no_kept_result_is_of_a_job_that_read_a_file_outside_of_the_rule(matrix):
    """Every module of the room that a job imports counts, and what only other suites import does not."""
    room = ROOT / "src" / "kernel_matrix"
    unread = {path.relative_to(room).as_posix() for path in (room / "job").rglob("*.py")
              if readers_of(matrix, f"src/kernel_matrix/{path.relative_to(room)}") is None}  # fmt: skip
    assert unread == {"job/suite_plugin.py", "job/ctest.py"}
    for path in ("src/kernel_matrix/report/sentences.py", "noxfile.py", "pyproject.toml", "probes/diagnosis.yaml"):
        assert readers_of(matrix, path) is None, path


@pytest.mark.parametrize("first", ["with git", "without git"])
def test_without_git_the_same_files_count(repository, doubles, monkeypatch, first):
    for name in (".venv/lib/a.py", "build/b.py", "src/doubles/__pycache__/c.pyc", "src/doubles.egg-info/PKG-INFO"):
        edit(doubles.root / name)
    for name in ("suite/numbers.bin", "src/doubles/kernel.cu"):
        edit(doubles.root / name)
        sh(repository, "git", "add", name)
    git_s = git.tracked_files
    if first == "without git":
        monkeypatch.setattr(git, "tracked_files", lambda root: None)
    job = job_of(doubles)
    monkeypatch.setattr(git, "tracked_files", git_s if first == "without git" else lambda root: None)
    assert stale(doubles, job) == ""
    edit(doubles.root / "src/doubles/kernel.cu")
    assert stale(doubles, job).startswith("its job read another")
