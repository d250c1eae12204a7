"""Facts that WebGPU launches rely on: how bf16 is stored in words, and what wgpu and lavapipe do and report.

Each fact is a program of ``webgpu.py``, which runs in an environment with wgpu. Where Mesa's Vulkan device is not
installed, every program and every case says so, with the command that installs it.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from common import python_of
from covering import covering
from in_environment import records_of

from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import plan
from kernel_matrix.vendors import webgpu

pytestmark = pytest.mark.environments

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("webgpu.py")
COMMAND = "sudo apt-get install mesa-vulkan-drivers"
NOWHERE = {"VK_DRIVER_FILES": "/dev/null"}
is_here = webgpu.driver([]).status == "good"
where_it_is = pytest.mark.skipif(not is_here, reason=f"no Vulkan device in software is here: {COMMAND}")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    """Read the project's own matrix.yaml."""
    return load(ROOT / "matrix.yaml")


@pytest.fixture(scope="module")
def run_programs():
    """Return a function that runs all programs with some variables, and returns the result of each."""
    python = python_of("tvm-0.27", "webgpu")

    def run(**variables: str) -> dict[str, str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **variables}
        done = subprocess.run([python, PROGRAM], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return dict(re.findall(r"^RESULT (\S+) (.*)$", done.stderr, re.MULTILINE))

    return run


@pytest.fixture(scope="module")
def results(run_programs) -> dict[str, str]:
    return run_programs()


@where_it_is
@pytest.mark.parametrize(
    ("program", "result"),
    [
        ("every_bf16", "1 True"),
        ("rounding", "True"),
        ("nan", r"\[True, False, True\]"),
        ("neighbours", "True True"),
        ("overrun", "RuntimeError: webgpu: a kernel wrote behind the end of out"),
        ("overrun_of_halves", "RuntimeError: webgpu: a kernel wrote behind the end of out"),
        ("read_beyond", r"tensor\(1\)"),
        ("large_grid", r"ValueError: one_kernel needs a grid of \(65536, 1\); WebGPU has at most 65535 .*"),
        ("wrong_source", "RuntimeError: wgpu: Validation Error.*no definition in scope for identifier: `nothing`.*"),
        ("threads", "True True"),
    ],
)
def test_a_launch_on_lavapipe_does_what_the_backends_rely_on(results, program, result):
    assert re.fullmatch(result, results[program])


def test_without_a_driver_every_launch_says_what_installs_it(run_programs):
    without = run_programs(**NOWHERE)
    assert set(without.values()) == {f"unavailable: Vulkan finds no device, and not lavapipe; {COMMAND}"}


@pytest.mark.nightly
def test_every_operator_s_gpu_form_runs_in_webgpu_or_says_why_not(tmp_path, matrix):
    """The smallest case of each cell; ``ci/nox -s matrix`` runs all of them."""
    runs = [case for case in plan(matrix, "quick").cases if case.cell.platform == "webgpu" and not case.exclusion]
    cells = {case.cell.id: [other for other in runs if other.cell == case.cell] for case in runs}
    chosen = [next(iter(covering(cases, 1))).id for cases in cells.values()]
    toolchains = matrix.platforms["webgpu"].by_toolchain
    ops = [op for name in toolchains for op in matrix.toolchains[name].ops]
    every = [(op, direction) for op in ops for direction in matrix.ops[op].directions]
    assert len(chosen) == len(cells) == len(every)
    records = records_of(tmp_path, chosen)
    assert len(records) == len(chosen)
    for record in records:
        if is_here:
            assert (record.outcome, record.action) == ("pass", "emulate"), record
            assert record.metrics["elements"] > 0
        else:
            assert record.outcome == "unavailable"
            assert COMMAND in record.message


@pytest.mark.nightly
def test_a_case_without_a_driver_is_unavailable_with_the_command(tmp_path, matrix):
    case = next(
        case.id for case in plan(matrix, "quick").cases if case.cell.id.startswith("webgpu/lavapipe/tvm-0.27/exp")
    )
    [record] = records_of(tmp_path, [case], **NOWHERE)
    assert (record.outcome, record.message) == ("unavailable", f"Vulkan finds no device, and not lavapipe; {COMMAND}")
