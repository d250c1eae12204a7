"""Programs that are simplified once for several targets are those that TileLang makes for each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Job
from kernel_matrix.run.environments import venv
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import Request

pytestmark = pytest.mark.environments

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("tilelang_simplify.py")
# 0.1.8 has no generator for AMD.
TARGETS = {
    "tilelang-0.1.8": ("sm_80", "sm_90", "x86-64-v3", "neoverse-n1"),
    "tilelang-0.1.15": ("sm_80", "sm_90", "gfx942", "gfx1100", "x86-64-v3", "rv64gcv"),
}


@pytest.mark.parametrize("toolchain", TARGETS)
def test_sources_are_those_of_a_simplifier_that_remembers_nothing(toolchain):
    matrix, targets = load(ROOT / "matrix.yaml"), TARGETS[toolchain]
    made = venv.prepare(Request(ROOT, ROOT / "build", matrix, Job("cpu-llvm", toolchain, ()), None, print))
    assert isinstance(made, LocalInterpreter)
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    command = [made.python, PROGRAM, *targets]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["once"]["sources"] == answer["alone"]["sources"]
    assert len(answer["once"]["sources"]) == 2 * len(targets)
    # Most of what the second target of a kind needs is known.
    assert answer["once"]["simplified"] < 0.75 * answer["alone"]["simplified"]
