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

ROOT = Path(__file__).resolve().parents[2]
FAULTS = tomllib.loads((ROOT / "tests" / "package" / "faults" / "rare.toml").read_text(encoding="utf-8"))["fault"]
MINUTES = 5


@pytest.fixture
def tree(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder like the repository, in which a kernel has the fault."""
    fault = request.param
    for path in ROOT.iterdir():
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


def fuzz(tree: Path, fault: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run the fuzzer on the lane of the fault."""
    lane = ("--platform", "cpu-llvm", "--target", "x86-64-v3", "--toolchain", fault["toolchain"])
    command = [sys.executable, "-m", "kernel_matrix", "fuzz", "--matrix", str(tree / "matrix.yaml"), *lane, *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("tree", "fault"),
    [(fault, fault) for fault in FAULTS],
    indirect=["tree"],
    ids=[f"{fault['toolchain']}-{number}" for number, fault in enumerate(FAULTS, 1)],
)
def test_the_fuzzer_finds_a_rare_fault_and_repeats_it_by_its_name(tree, fault):
    found = fuzz(tree, fault, "--case", fault["case"], "--minutes", str(MINUTES))
    assert found.returncode == 1, found.stdout + found.stderr
    print(found.stdout)
    assert "repeats in a new process: " in found.stdout, found.stdout
    [name] = re.findall(r"FAILS (\S+)", found.stdout)
    again = fuzz(tree, fault, "--case", name)
    assert again.returncode == 1, again.stdout + again.stderr
    right = fuzz(ROOT, fault, "--case", name)
    assert right.returncode == 0, right.stdout + right.stderr
