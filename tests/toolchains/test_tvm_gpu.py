"""What the TVM backend's GPU form is built on: what TVM lets pass, what the OpenCL runtimes cannot do, what they catch.

Each fact is a program of ``toolchains/tvm_gpu.py``. One that no longer holds fails here, and its work-around can go.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

from kernel_matrix.config.plan import Job
from kernel_matrix.results import junit
from kernel_matrix.run.environments import venv
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import Request

PROGRAM = Path(__file__).parent / "toolchains" / "tvm_gpu.py"


@pytest.fixture(scope="module")
def python(matrix) -> Path:
    """The interpreter of TVM's environment."""
    made = venv.prepare(Request(ROOT, ROOT / "build", matrix, Job("opencl", "tvm-0.27", ()), None, print))
    assert isinstance(made, LocalInterpreter)
    return made.python


@pytest.fixture(scope="module")
def said(python, matrix, tmp_path_factory) -> dict[str, tuple[str, str]]:
    """Run all programs with the platform's variables: what each ends with, and all that it said."""
    [lane] = matrix.platforms["opencl"].entries
    cache = {"POCL_CACHE_DIR": str(tmp_path_factory.mktemp("pocl")), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([python, PROGRAM], env={**os.environ, **lane.environment, **cache}, capture_output=True)
    words = done.stderr.decode(errors="replace")
    assert done.returncode == 0, words
    found = re.findall(r"^PROGRAM (\S+)\n(.*?)^RESULT (.*?)$", words, re.MULTILINE | re.DOTALL)
    return {name: (result, text) for name, text, result in found}


@pytest.fixture
def says(said):
    """What a program ends with, and all that it said."""
    return said.__getitem__


@pytest.mark.parametrize(
    ("program", "check"),
    [
        ("fits", "nothing"),
        ("threads", "nothing has 2048 threads in a block; the limit is 1024"),
        ("shared", "nothing has 524288 bytes of shared memory in a block; the limit is 49152"),
        ("unbound", "unbound binds nothing to threads"),
        ("unequal", "unequal binds threadIdx.x to 4 and 64"),
    ],
)
def test_tvm_compiles_what_no_gpu_runs_and_the_check_does_not(says, program, check):
    assert says(program)[0] == f"TVM compiles it; check: {check}"


def test_the_wheel_of_tvm_has_no_gpu_runtime(says):
    assert says("runtimes")[0] == "none"


def test_tvm_alone_does_not_compile_for_amd_without_rocm(says):
    assert says("rocm-alone")[0] == "Cannot find ROCm path"


def test_oclgrind_does_not_convert_a_half(says):
    """One plus one. Between runs it differs whether it complains, or takes the bits of one, 0x3C00, for a number."""
    result, words = says("half-oclgrind")
    assert result.startswith("ran: ")
    assert result != "ran: 2.0", "what comes instead lay in its memory"
    assert result == "ran: 15360.0" or re.search(r"Unsupported (argument type|float size: 2 bytes)", words)


def test_pocl_does_not_take_half_precision(says):
    result, _ = says("half-pocl")
    works = says("probe-pocl")[0] == "works"
    assert ("Half precision floating point not supported" in result) if works else (result == says("probe-pocl")[0])


def test_oclgrind_works_on_every_cpu(says):
    assert says("probe-oclgrind")[0] == "works"


def test_the_whole_kernel_has_no_race(says):
    assert float(says("whole")[0]) < 1e-6


@pytest.mark.parametrize("barrier", range(4))
def test_a_missing_barrier_is_a_race_and_an_error(says, barrier):
    """Of this kernel every barrier is needed, and without one the numbers are often right all the same."""
    result, _ = says(f"without-{barrier}")
    assert result.startswith("oclgrind: ")
    assert "data race" in result


def test_every_operator_s_gpu_form_runs_in_software_or_says_why_not(tmp_path, matrix, says):
    (tmp_path / "envs").symlink_to(ROOT / "build" / "envs")
    command = [sys.executable, "-m", "kernel_matrix", "run", "--platform", "opencl", "--build", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    records = junit.read(tmp_path / "results" / "opencl.tvm-0.27.xml")
    for runtime in matrix.platforms["opencl"].targets:
        mine = [r for r in records if r.case.startswith(f"opencl/{runtime}/") and r.outcome != "excluded"]
        assert len({record.case.split("/")[3] for record in mine}) == 6
        probe, _ = says(f"probe-{runtime}")
        for record in mine:
            if probe == "works":
                assert (record.outcome, record.action) == ("pass", "emulate"), record
                assert record.metrics["elements"] > 0
            else:
                assert (record.outcome, f"unavailable: {record.message}") == ("unavailable", probe)
