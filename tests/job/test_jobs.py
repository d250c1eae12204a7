"""A job imports little and records its environment, and a case of several tests ends once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest
from common import ROOT, Doubles, records_in
from records import states

from kernel_matrix.job.end import End, combined
from kernel_matrix.job.surroundings import environment_facts
from kernel_matrix.run import harness

# Run the harness in the folder that the first argument names, even if this interpreter has another one.
INSTALLED = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from kernel_matrix import cli; sys.exit(cli.main(sys.argv[1:]))"
)

SECOND_TEST = """

def second(case):
    does = {2: "fixture", 3: "skips", 4: "proves-nothing", 5: "dies"}
    return does.get(case.axes["tokens"]) if case.backend == "good" else ""


@pytest.fixture
def prepared(case):
    if second(case) == "fixture":
        raise OSError("nothing could be prepared")


@pytest.mark.op("double", "forward")
def test_double_again(case, prepared):
    x = case.draw("x", (4, 8)).astype(np.float32)
    if second(case) == "skips":
        pytest.skip("the second device is not here")
    if second(case) == "dies":
        os._exit(3)
    if second(case) == "proves-nothing":
        return
    out, golden = {"again": 2 * x}, {"again": 2 * x.astype(np.float64)}
    case.compare(out, golden, [out], [golden], {"again": 1.0}, {"again": 1})
"""


# The harness needs NumPy itself, and takes its own one.
OTHER_NUMPY = """
import sys

if "kernel_matrix.cli" not in sys.modules:
    raise RuntimeError("a numpy that no lock file names")
paths = list(sys.path)
sys.path[:] = [path for path in paths if not __file__.startswith(f"{path}/numpy/")]
del sys.modules["numpy"]
import numpy

sys.path[:] = paths
"""


def other_numpy(folder: Path) -> Path:
    """Make a folder that looks like another Python's packages, with a numpy of its own, which no job may import."""
    (folder / "numpy").mkdir(parents=True)
    (folder / "numpy" / "__init__.py").write_text(OTHER_NUMPY)
    (folder / "numpy-0.1.dist-info").mkdir()
    (folder / "numpy-0.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numpy\nVersion: 0.1\n")
    return folder


@pytest.mark.slow
def test_a_job_in_an_environment_has_the_environment_s_own_numpy(here: Doubles, tmp_path):
    """Neither a numpy beside the harness nor one on the user's import path gets into the job."""
    installed, on_path = (other_numpy(tmp_path / name) for name in ("site-packages", "others"))
    shutil.copytree(ROOT / "src" / "kernel_matrix", installed / "kernel_matrix")
    variables = {**os.environ, "PYTHONPATH": str(on_path)}
    command = [sys.executable, "-c", INSTALLED, str(installed), "run", "--matrix", str(here.root / "matrix.yaml")]
    command += ["--executor", "venv", "--toolchain", "good"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    records = records_in(here.root / "build" / "results", "here.good")
    assert [record.outcome for record in records] == ["pass"] * 3
    job = records[0].job
    locked = dict(re.findall(r"^([\w-]+)==(\S+)", (here.root / "lock.txt").read_text(), re.MULTILINE))
    assert {name: job[f"version.{name.replace('ml-dtypes', 'ml_dtypes')}"] for name in locked} == locked
    assert job["version.pluggy"], "what the lock file does not name is recorded too"
    assert "version.kernel-matrix" not in job


@pytest.mark.slow
def test_a_job_imports_the_harness_once_also_where_the_package_s_source_has_one(doubles: Doubles):
    own = doubles.root / "src" / "kernel_matrix"
    own.mkdir()
    (own / "__init__.py").write_text("raise RuntimeError('another harness')\n")
    assert states(doubles.run("good")) == ["pass"] * 3


def test_the_copy_for_jobs_has_what_a_job_imports_and_is_mended(tmp_path):
    folder = harness.copy_for_jobs(tmp_path)
    assert folder == harness.copy_folder(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"kernel_matrix"}
    assert {path.name for path in (folder / "kernel_matrix").iterdir()} == {"__init__.py", "job", "kit"}
    (folder / harness.START).write_text("a job wrote here")
    harness.copy_for_jobs(tmp_path)
    assert (folder / harness.START).read_bytes() == (ROOT / "src" / harness.START).read_bytes()


def test_every_distribution_of_the_environment_is_recorded_by_its_own_name():
    facts = environment_facts()
    names = {distribution.metadata["Name"] for distribution in distributions()}
    assert {"ml_dtypes", "pytest", "pluggy"} <= names
    assert {key.removeprefix("version.") for key in facts if key.startswith("version.")} == names


@pytest.mark.slow
def test_of_two_tests_of_a_case_the_worst_end_decides(doubles: Doubles):
    with (doubles.root / "suite" / "test_doubles.py").open("a") as suite:
        suite.write(SECOND_TEST)
    doubles.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1, 2, 3, 4, 5, 6] }")
    ends = {
        ("good", 1): ("pass", "", ""),
        ("good", 2): ("error", "import", "OSError: nothing could be prepared"),
        ("good", 3): ("error", "import", "the second device is not here"),
        ("good", 4): ("error", "import", "RuntimeError: the case ended without a comparison"),
        ("good", 5): ("error", "crash", "the process ended with exit status 3"),
        ("good", 6): ("pass", "", ""),
        ("raises", 2): ("error", "launch", "ZeroDivisionError: the launch was refused"),
        ("wrong", 2): ("fail", "", "kernel_matrix.job.case.OutOfBudgetError: out: max_abs"),
        ("segfault", 2): ("error", "crash", "the process died of SIGSEGV"),
    }
    comparison = doubles.run(*dict.fromkeys(toolchain for toolchain, _ in ends))
    found = {(v.case.cell.toolchain, v.case.axes["tokens"]): v for v in comparison.verdicts}
    for key, verdict in found.items():
        state, stage, message = ends.get(key, ("pass", "", ""))
        assert (verdict.state, verdict.record.stage) == (state, stage), key
        assert message in verdict.record.message, key
    assert found["good", 1].record.metrics["elements"] == 8 + 4 * 8
    assert {"out.max_abs", "again.max_abs"} <= found["good", 1].record.metrics.keys()
    for toolchain in ("good", "raises", "wrong", "segfault"):
        journal = (doubles.root / "build" / "jobs" / f"here.{toolchain}" / "journal.jsonl").read_text()
        assert journal.count('"end"') == journal.count('"start"') == 6


def test_no_end_of_several_is_lost():
    error = End("error", "launch", "E: one", "trace one", 1.0, {"elements": 4.0}, {"a": "1"})
    failure = End("fail", None, "F: two", "trace two", 2.0, {"elements": 5.0, "x": 1.0})
    good = End("pass", seconds=4.0, metrics={"elements": 6.0, "x": 0.0}, facts={"b": "2"})
    for ends in ((error, failure, good), (good, failure, error)):
        end = combined(ends)
        assert (end.outcome, end.stage, end.message, end.seconds) == ("error", "launch", "E: one; F: two", 7.0)
        assert end.detail == "trace one\ntrace two"
        assert end.metrics["elements"] == 15.0
        assert end.facts == {"a": "1", "b": "2"}
