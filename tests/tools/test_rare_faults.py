"""The fuzzer finds ten faults of a rare shape or value, in kernels of five backends, and repeats them by name."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from common import ROOT
from loops import at_least

FAULTS = tomllib.loads((ROOT / "tests" / "package" / "faults" / "rare.toml").read_text(encoding="utf-8"))["fault"]
MINUTES, TARGET = 5, "x86-64-v3"


@pytest.fixture
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder like the repository, in which a kernel has the fault."""
    fault = request.param
    for path in at_least(20, ROOT.iterdir()):
        if path.name not in ("src", "build", ".git", "matrix.yaml"):
            (tmp_path / path.name).symlink_to(path)
    shutil.copytree(ROOT / "src" / "mhc", tmp_path / "src" / "mhc", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "matrix.yaml", tmp_path)
    (tmp_path / "build").mkdir()
    for name in ("envs", "cache"):
        (ROOT / "build" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "build" / name).symlink_to((ROOT / "build" / name).resolve())
    file = tmp_path / "src" / "mhc" / fault["file"]
    text = file.read_text(encoding="utf-8")
    assert text.count(fault["old"]) == 1, fault["name"]
    file.write_text(text.replace(fault["old"], fault["new"]), encoding="utf-8")
    return tmp_path


def harness(tree: Path, command: str, fault: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the harness on the toolchain of the fault."""
    lane = ("--platform", "cpu-llvm", "--toolchain", fault["toolchain"])
    line = [sys.executable, "-m", "kernel_matrix", command, "--matrix", str(tree / "matrix.yaml"), *lane, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(line, env=environment, capture_output=True, text=True, check=False)


EACH = pytest.mark.parametrize(
    ("tree", "fault"),
    [(fault, fault) for fault in FAULTS],
    indirect=["tree"],
    ids=[f"{fault['toolchain']}-{number}" for number, fault in enumerate(FAULTS, 1)],
)


@pytest.mark.nightly
@EACH
def test_the_fuzzer_finds_a_rare_fault_and_repeats_it_by_its_name(tree, fault):
    lane = ("--target", TARGET)
    found = harness(tree, "fuzz", fault, *lane, "--case", fault["case"], "--minutes", str(MINUTES))
    assert found.returncode == 1, found.stdout + found.stderr
    print(found.stdout)
    assert "repeats in a new process: " in found.stdout, found.stdout
    [name] = re.findall(r"FAILS (\S+)", found.stdout)
    again = harness(tree, "fuzz", fault, *lane, "--case", name)
    assert again.returncode == 1, again.stdout + again.stderr
    right = harness(ROOT, "fuzz", fault, *lane, "--case", name)
    assert right.returncode == 0, right.stdout + right.stderr


@pytest.mark.nightly
@EACH
def test_the_quick_cases_do_not_see_a_rare_fault(tree, fault):
    cell = f"cpu-llvm/{TARGET}/{fault['toolchain']}/{fault['case']}"
    done = harness(tree, "run", fault, "--tier", "quick", "--executor", "venv", "--case", cell)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
