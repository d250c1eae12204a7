"""Programs that are simplified once for several targets are those that TileLang makes for each."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from common import python_of
from in_environment import ROOT

pytestmark = [pytest.mark.environments, pytest.mark.nightly]  # by day the matrix runs them

PROGRAM = Path(__file__).with_name("tilelang_simplify.py")
# Two kinds of targets, and two of each; 0.1.8 has no generator for AMD.
ALL = ("sm_80", "sm_90", "gfx942", "gfx1100", "x86-64-v3", "rv64gcv")
OLDER = ("sm_80", "sm_90", "x86-64-v3", "neoverse-n1")


@pytest.mark.parametrize(
    ("toolchain", "targets"),
    [("tilelang-0.1.15", ALL), ("tilelang-0.1.8", OLDER)],
    ids=["tilelang-0.1.15", "tilelang-0.1.8"],
)
def test_sources_are_those_of_a_simplifier_that_remembers_nothing(toolchain, targets):
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}
    command = [python_of(toolchain, "cpu-llvm"), PROGRAM, *targets]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["once"]["sources"] == answer["alone"]["sources"]
    assert len(answer["once"]["sources"]) == 2 * len(targets)
    # Most of what the second target of a kind needs is known.
    assert answer["once"]["simplified"] < 0.75 * answer["alone"]["simplified"]
