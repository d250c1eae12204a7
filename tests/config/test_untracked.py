"""A file that appears in the checkout is no part of what was measured, and nothing that was measured changes unseen."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from common import ROOT, Doubles
from repositories import sh
from suites import MATRIX, Suite

from kernel_matrix.base import git
from kernel_matrix.base.opened import Opened
from kernel_matrix.config.file_readers import readers_of
from kernel_matrix.config.reads import Checkout
from kernel_matrix.config.snapshot import Seen, Snapshot
from kernel_matrix.vendors.machine import detect

EVERYWHERE = "source: src", "source: ."
BESIDE = "its job read another file beside them that git does not track"


@dataclass
class Job:
    """A job that runs in a checkout, without its processes."""

    doubles: Doubles

    def __post_init__(self) -> None:
        self.before = Snapshot.of(Checkout(self.doubles.matrix, self.doubles.root), "here", "good", "current", [])
        self.commit = self.before.commit()
        self.opened = self.before.watched(self.doubles.root)

    def end(self) -> Seen:
        self.seen = self.before.seen(self.commit, self.opened.end())
        return self.seen

    @property
    def stale(self) -> str:
        """Why the results are stale now, by what the job read."""
        job = {"executor": "current", **self.before.facts, **self.seen.facts}
        return Checkout(self.doubles.matrix, self.doubles.root).difference("here", "good", job)


@pytest.fixture
def checkout(repository, doubles) -> Doubles:
    """The doubles in a git checkout whose root is the source, as it is where a package lies at the top."""
    doubles.edit(*EVERYWHERE)
    sh(repository, "git", "commit", "-qam", "two")
    return doubles


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text or f"{os.urandom(8).hex()}\n")
    return path


LEFT = (
    *("run.log", "out.txt", "nohup.out", "core.4711", "typescript", "results.csv", "report.html", "junit.xml"),
    *("suite/picture.png", "suite/out.npz", "suite/out.npy", "suite/perf/softmax.csv", "suite/data.json", "trace.json"),
    *("suite/report.toml", "suite/result.cfg", "suite/result.ini", "profile.ncu-rep", "profile.nsys-rep", "p.sqlite"),
    *("wandb/run-1/files/config.yaml", "mlruns/0/meta.yaml", "suite/__snapshots__/test_a.ambr", "kernel.cu"),
    *("kernel.ptx", "dump/k.ttir", "k.cubin", "torch_compile_debug/run_1/output_code.py", "suite/test_doubles.py~"),
    *("suite/4913", ".coverage", ".benchmarks/1.json", ".hypothesis/examples/a", "suite/__pycache__/a.so"),
    *(
        "env/pyvenv.cfg",
        "env/lib/a.py",
        "model.pt",
        "weights.safetensors",
        "src/doubles/out.txt",
        "src/a.egg-info/x.py",
    ),
    *(
        "results-gpu/jobs/here.good-0123456789abcdef.parquet",
        "results/gpu/cases.parquet",
        "results-gpu/tests.json",
        "alice-0123456789ab.txt",
    ),
    "results-gpu/journals/here.good-0123456789abcdef.jsonl",
)


def test_files_that_nobody_had_at_the_start_are_no_part_of_what_was_measured(checkout):
    """They are written once, then again while they are there, and then they are taken away."""
    for name in LEFT[:6]:
        write(checkout.root / name)  # the shell makes the file of its redirection before the run
    first = Job(checkout)
    for name in LEFT:
        write(checkout.root / name)
    assert first.end() == Seen((), (), {})
    assert first.stale == ""
    second = Job(checkout)
    for name in LEFT:
        write(checkout.root / name)
    assert second.end().changed == ()
    assert second.commit == git.revision(checkout.root), "none of them is a change of the source"
    for name in LEFT:
        (checkout.root / name).unlink()
    assert (first.stale, second.stale) == ("", "")


def test_files_that_lie_there_and_nobody_opens_are_no_part_of_what_was_measured(checkout):
    for name in ("notes.txt", "suite/old.npz", "old.log", "src/doubles/old.csv"):
        write(checkout.root / name)
    job = Job(checkout)
    assert job.end() == Seen((), (), {})
    write(checkout.root / "notes.txt")
    (checkout.root / "suite/old.npz").unlink()
    assert job.stale == ""


@pytest.mark.parametrize("how", ["edited", "gone", "kept", "added to git", "another process opens it"])
def test_a_file_that_was_there_and_was_read_is_a_part_of_what_was_measured(checkout, how):
    path = write(checkout.root / "suite/expected.npz")
    job = Job(checkout)
    if how == "another process opens it":
        subprocess.run([sys.executable, "-c", f"open({str(path)!r}).read()"], check=True)
    else:
        path.read_text()
    seen = job.end()
    assert seen.changed == ()
    assert seen.facts["commit"] == f"{git.revision(checkout.root)}+changes"
    match how:
        case "edited" | "another process opens it":
            write(path)
        case "gone":
            path.unlink()
        case "added to git":
            sh(checkout.root, "git", "add", str(path))
    assert job.stale == ("" if how in ("kept", "added to git") else BESIDE)


def test_a_link_is_read_where_its_file_is(checkout, tmp_path):
    elsewhere = write(tmp_path / "elsewhere" / "weights.bin")
    (checkout.root / "suite/weights.bin").symlink_to(elsewhere)
    job = Job(checkout)
    elsewhere.read_text()
    job.end()
    assert job.stale == ""
    write(elsewhere)
    assert job.stale == BESIDE


def test_a_cache_that_was_read_and_then_written_is_named_and_no_part(checkout):
    path = write(checkout.root / "suite/timings.json")
    job = Job(checkout)
    path.read_text()
    write(path)
    assert job.end() == Seen((), ("suite/timings.json",), {})
    assert job.stale == ""


CHANGED = {
    "a tracked source": "src/doubles/__init__.py",
    "a tracked test": "suite/test_doubles.py",
    "tracked data": "suite/golden.npz",
    "an untracked module": "src/doubles/more.py",
    "an untracked kernel that was read": "src/kernels/kernel.cu",
    "a new module that shadows another": "numpy.py",
    "a new package that shadows another": "suite/numpy/__init__.py",
    "a new conftest.py": "conftest.py",
    "a new compiled module": "src/doubles/_C.so",
    "a new test": "suite/test_new.py",
    "a tracked file is gone": "",
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_is_measured_does_not_change_unseen(checkout, what):
    write(checkout.root / "suite/golden.npz")
    sh(checkout.root, "git", "add", "suite/golden.npz")
    write(checkout.root / "src/doubles/more.py", "MORE = 1\n")
    write(checkout.root / "src/kernels/kernel.cu")
    name = CHANGED[what] or "suite/kernel_side.py"
    path = checkout.root / name
    job = Job(checkout)
    if path.exists():
        path.read_bytes()
    if what == "a tracked file is gone":
        path.unlink()
    else:
        write(path, f"A = {os.getpid()}\n")
    assert job.end().changed == (name,)


@pytest.mark.parametrize("name", ["src/kernels/kernel.cu", "src/doubles/more.py", "suite/deep/test_new.py", "csrc/a.h"])
def test_untracked_source_is_a_part_of_what_was_measured(checkout, name):
    write(checkout.root / name, "A = 1\n")
    job = Job(checkout)
    assert job.end().changed == ()
    assert job.stale == ""
    write(checkout.root / name, "A = 2\n")
    assert job.stale
    write(checkout.root / name, "A = 1\n")
    sh(checkout.root, "git", "add", name)
    assert job.stale == "", "to commit what was measured changes nothing"


def test_what_matrix_yaml_names_counts_whoever_tracks_it(checkout):
    checkout.edit("package:", "ci: { read: ['data/*'] }\npackage:")
    path = write(checkout.root / "data/numbers.csv")
    job = Job(checkout)
    write(path)
    assert job.end().changed == ("data/numbers.csv",)


def test_without_inotify_every_file_that_lay_there_counts(checkout, monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())
    path = write(checkout.root / "notes.txt")
    write(checkout.root / "run.log")
    job = Job(checkout)
    write(checkout.root / "run.log")
    assert job.end().changed == ()
    assert job.stale == ""
    write(path)
    assert job.stale == BESIDE


def test_without_git_source_counts_and_so_does_what_is_opened(doubles):
    doubles.edit(*EVERYWHERE)
    data = write(doubles.root / "suite/golden.npz")
    job = Job(doubles)
    data.read_text()
    for name in LEFT:
        write(doubles.root / name)
    assert job.end().changed == ()
    assert job.stale == ""
    write(data)
    assert job.stale == BESIDE


def test_results_are_never_a_part_of_the_package_even_where_git_tracks_them(checkout):
    job = Job(checkout)
    job.end()
    for name in LEFT[-5:]:
        write(checkout.root / name)
        sh(checkout.root, "git", "add", name)
        assert readers_of(checkout.matrix, name) is None or name.endswith("tests.json"), name


def test_the_first_of_two_events_says_whether_a_file_was_read_before_it_was_written(tmp_path):
    files = {name: [write(tmp_path / name)] for name in ("read", "written", "both", "made", "none", "twice")}
    files["gone"] = [tmp_path / "gone"]
    (tmp_path / "link").hardlink_to(tmp_path / "twice")
    files["link"] = [tmp_path / "link"]
    watch = Opened(files)
    for name in ("read", "both", "twice"):
        files[name][0].read_text()
    for name in ("written", "both"):
        write(files[name][0])
    files["made"][0].unlink()
    write(files["made"][0])
    assert watch.end() == {"read": True, "both": True, "written": False, "twice": True, "link": True}
    assert watch.end() is None, "it has ended"


@pytest.mark.parametrize(("name", "number"), [("src/doubles/__init__.py", 1), ("suite/golden.npz", 2), ("run.py", 1)])
def test_nothing_runs_where_the_output_goes_into_a_file_that_jobs_read(checkout, name, number):
    with (checkout.root / name).open("a") as file:
        sh(checkout.root, "git", "add", name)
        streams = {"stdout": file} if number == 1 else {"stderr": file, "stdout": subprocess.DEVNULL}
        command = [sys.executable, "-m", "kernel_matrix", "run", "--executor", "current", "--toolchain", "good"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(command, cwd=checkout.root, env=environment, text=True, check=False,
                              **{"stderr": subprocess.PIPE, **streams})  # fmt: skip
    stream = "output" if number == 1 else "error"
    text = done.stderr or (checkout.root / name).read_text()
    assert (done.returncode, text) == (2, text)
    assert f"kernel-matrix: {name}: the standard {stream} goes into this file, which jobs read" in text
    assert not (checkout.root / "build" / "results").exists()


TESTS = """
    import os
    from pathlib import Path

    HERE = Path(__file__).parent

    def test_reads(): assert (HERE / "expected.txt").read_text()
    def test_writes():
        (HERE / "picture.png").write_bytes(os.urandom(20))
        (HERE.parent / "out.npz").write_bytes(os.urandom(20))
        (HERE / "perf").mkdir(exist_ok=True)
        (HERE / "perf" / "a.csv").write_text(os.urandom(9).hex())
        (HERE / "report.toml").write_text(f"a = {os.getpid()}")
        Path("kernel.cu").write_text(f"// {os.getpid()}")
        Path(f"core.{os.getpid()}").write_text("x")
        folder = Path(f"torch_compile_debug/run_{os.getpid()}")
        folder.mkdir(parents=True)
        (folder / "output_code.py").write_text(f"A = {os.getpid()}")
"""


def matrix(suite: Suite, *options: str, into: str) -> tuple[int, str]:
    """Run the command in the checkout; its output goes into a file there, or through ``tee``."""
    command = f"{sys.executable} -m kernel_matrix matrix --executor current {' '.join(options)} {into}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    shell = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(shell, cwd=suite.root, env=environment, capture_output=True, text=True, check=False)
    files = [path for path in suite.root.glob("*.txt") if path.name in into] or [suite.root / "run.log"]
    return done.returncode, files[0].read_text()


@pytest.mark.slow
@pytest.mark.parametrize("with_git", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_a_suite_that_writes_files_and_a_log_beside_it_are_green_and_kept(tmp_path, monkeypatch, with_git):
    target = detect().devices[0].targets[-1]
    text = MATRIX.replace("name: thing", "name: thing, source: .").replace("targets: [any]", f"targets: [{target}]")
    files = {"tests/test_a.py": TESTS, "thing/__init__.py": "X = 1\n", ".gitignore": "build/\n"}
    suite = Suite.made(tmp_path, files, text)
    if with_git:
        sh(tmp_path, "git", "init", "-q")
        sh(tmp_path, "git", "add", "-A")
        sh(tmp_path, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    write(tmp_path / "tests/expected.txt")
    for options, into, kept in (((), "> run.log 2>&1", False), ((), "2>&1 | tee out.txt", True),
                                (("--anew",), "2>&1 | tee more.txt", False)):  # fmt: skip
        status, output = matrix(suite, *options, into=into)
        assert status == 0, output
        assert "2 cases: 2 held" in output
        assert "stale" not in output
        assert ("kept" in output) == kept, output
