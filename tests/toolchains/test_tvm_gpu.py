"""Facts that the GPU form of the TVM backend relies on: what TVM compiles, and what the OpenCL runtimes do and report.

Each fact is a program of ``tvm_gpu.py``, which runs in TVM's environment. A test fails once its fact no longer holds;
then the work-around for it can go.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from common import python_of
from covering import covering, with_the_night
from in_environment import records_of

from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import plan

pytestmark = pytest.mark.environments

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("tvm_gpu.py")
# What is asked by day. The runtimes' own arithmetic and contexts, and most of the barriers, wait for the night: an
# interpreter runs each kernel without a barrier.
BY_DAY = (
    *("fits", "threads", "shared", "unbound", "unequal", "runtimes", "rocm-alone", "streams"),
    *("probe-oclgrind", "probe-intel-cpu", "probe-pocl-7", "whole", "without-0", "gradients", "gradients-without-0"),
)
BARRIERS = [0, *(pytest.param(barrier, marks=pytest.mark.nightly) for barrier in (1, 2, 3))]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    """Read the project's own matrix.yaml."""
    return load(ROOT / "matrix.yaml")


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the interpreter of TVM's environment, which is made if it is not there."""
    return python_of("tvm-0.27", "opencl")


@pytest.fixture(scope="module")
def results(request, python, matrix, tmp_path_factory) -> dict[str, tuple[str, str]]:
    """Run the programs with the platform's variables, and return the result and the output of each."""
    programs = () if with_the_night(request) else BY_DAY
    entry, *others = matrix.platforms["opencl"].entries
    assert all(other.environment == entry.environment for other in others)
    cache = {"POCL_CACHE_DIR": str(tmp_path_factory.mktemp("pocl")), "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [python, PROGRAM, *programs], env={**os.environ, **entry.environment, **cache}, capture_output=True
    )
    output = done.stderr.decode(errors="replace")
    assert done.returncode == 0, output
    programs = re.findall(r"^PROGRAM (\S+)\n(.*?)^RESULT (.*?)$", output, re.MULTILINE | re.DOTALL)
    return {name: (result, text) for name, text, result in programs}


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
def test_tvm_compiles_kernels_that_no_gpu_can_run_and_the_check_refuses_them(results, program, check):
    assert results[program][0] == f"TVM compiles it; check: {check}"


def test_the_wheel_of_tvm_has_no_gpu_runtime(results):
    assert results["runtimes"][0] == "none"


def test_tvm_alone_does_not_compile_for_amd_without_rocm(results):
    assert results["rocm-alone"][0] == "Cannot find ROCm path"


def test_too_many_streams_are_refused_in_both_forms(results):
    assert results["streams"][0].startswith("there are 17 streams; this backend takes up to 16")


@pytest.mark.nightly
def test_oclgrind_does_not_convert_a_half(results):
    """The program adds one to one. Oclgrind complains, or takes the bits of one (0x3C00) for a number: runs differ."""
    result, output = results["half-oclgrind"]
    assert result.startswith("ran: ")
    assert result != "ran: 2.0", "Oclgrind converts a half now"
    assert result == "ran: 15360.0" or re.search(r"Unsupported (argument type|float size: 2 bytes)", output)


@pytest.mark.nightly
def test_pocl_does_not_take_half_precision(results):
    result, _ = results["half-pocl"]
    works = results["probe-pocl"][0] == "works"
    assert ("Half precision floating point not supported" in result) if works else (result == results["probe-pocl"][0])


@pytest.mark.nightly
def test_intel_s_runtime_computes_in_half_precision(results):
    assert results["half-intel-cpu"][0] == "ran: 2.0"


def test_a_runtime_of_the_system_works_or_is_not_installed_and_the_text_has_the_command(results):
    text = results["probe-pocl-7"][0]
    assert text == "works" or "sudo apt-get install pocl-opencl-icd" in text


@pytest.mark.parametrize("runtime", ["oclgrind", "intel-cpu"])
def test_these_runtimes_work_on_every_cpu(results, runtime):
    assert results[f"probe-{runtime}"][0] == "works"


@pytest.mark.nightly
def test_a_queue_of_intel_s_runtime_does_not_keep_its_context(results):
    """This is why the backend holds both."""
    assert results["context-of-a-queue"][0] == "clRetainContext failed: INVALID_CONTEXT"


def test_the_whole_kernel_has_no_race(results):
    assert float(results["whole"][0]) < 1e-6


@pytest.mark.parametrize("barrier", BARRIERS)
def test_a_missing_barrier_is_a_race_and_an_error(results, barrier):
    """This kernel needs every barrier. Without one of them the numbers are often right all the same."""
    result, _ = results[f"without-{barrier}"]
    assert result.startswith("oclgrind: ")
    assert "data race" in result


def test_the_gradients_are_right_over_several_tiles_and_groups(results):
    assert float(results["gradients"][0]) < 2e-6


@pytest.mark.parametrize("barrier", BARRIERS)
def test_a_missing_barrier_around_a_tile_is_a_race(results, barrier):
    assert "data race" in results[f"gradients-without-{barrier}"][0]


@pytest.mark.nightly
def test_every_operator_s_gpu_form_runs_in_software_or_says_why_not(tmp_path, matrix, results):
    runs = [case for case in plan(matrix, "quick").cases if case.cell.platform == "opencl" and not case.exclusion]
    # Each kernel is compiled, and Oclgrind interprets it: one case of each cell. ``ci/nox -s matrix`` runs all cases.
    several = [case for case in runs if case.axes["tokens"] > 1]
    cells = {case.cell.id: [other for other in several if other.cell == case.cell] for case in runs}
    records = records_of(tmp_path, [case.id for cases in cells.values() for case in covering(cases, 0)])
    every = {f"{op}.{direction}" for op in matrix.toolchains["tvm-0.27"].ops for direction in matrix.ops[op].directions}
    for runtime in matrix.platforms["opencl"].targets:
        mine = [r for r in records if r.case.startswith(f"opencl/{runtime}/") and r.outcome != "excluded"]
        assert {record.case.split("/")[3] for record in mine} == every
        probe, _ = results[f"probe-{runtime}"]
        for record in mine:
            if probe == "works":
                assert (record.outcome, record.action) == ("pass", "emulate"), record
                assert record.metrics["elements"] > 0
            else:
                assert (record.outcome, f"unavailable: {record.message}") == ("unavailable", probe)
