"""The harness knows no package: all its words about kernels, compilers and frameworks come from matrix.yaml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from common import ROOT
from loops import at_least

HARNESS = ROOT / "src" / "kernel_matrix"
NAMES = re.compile(r"mhc|torch|triton|tilelang|tvm", re.IGNORECASE)  # also inside another word, such as pytorch
# The variables by which build systems take a vendor's targets: the vendor's file names them.
OF_BUILDS = re.compile(r"TORCH_CUDA_ARCH_LIST|PYTORCH_ROCM_ARCH")
# The service that compiles for toolchains ahead of time: a suite and the recorder of launches call it.
SERVICE = HARNESS / "job" / "ahead"
# The arrays of frameworks that kernels take: one file for each.
FRAMEWORKS = HARNESS / "kit" / "frameworks"
# The functions by which suites compare, by the framework that has them, and their arrays.
COMPARISONS = HARNESS / "job" / "suite_canaries"
# One library has a build for each kind of machine, with other names of its compiler: the table of these builds, and who
# makes, checks and installs locks by it.
BUILDS = {
    *(HARNESS / "vendors" / name for name in ("builds.py", "builds.toml")),
    *(HARNESS / "config" / name for name in ("lock_faults.py", "model/platforms.py")),
    *(HARNESS / "run" / "environments" / name for name in ("builds.py", "venv.py")),
    *(HARNESS / name for name in ("base/versions.py", "doctor/build_checks.py")),
}
# What errors of toolchains mean: data. A test says that it names no package.
TOOLCHAINS = HARNESS / "diagnosis" / "toolchains"
# The page as it is built, with minified libraries; what npm installs to build it; the tests of its sources.
NOT_OWN = {"dist", "node_modules", "tests"}
# `adopt` recognises what people have; `probes` and the tools are programs about toolchains.
ROOMS = sorted({path.name for path in at_least(20, HARNESS.glob("*"))} - {"__pycache__", "adopt", "probes", "tools"})


def lines_with_a_name(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    named = [f"{n}: {line.strip()[:120]}" for n, line in enumerate(lines, 1) if NAMES.search(OF_BUILDS.sub("", line))]
    return [f"{path.relative_to(ROOT)}:{line}" for line in named] + [str(path)] * bool(NAMES.search(path.name))


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_template_or_rule_of_the_harness_names_a_package_or_toolchain(room):
    path = HARNESS / room
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file() and file.suffix != ".pyc"]
    own = [f for f in files if not NOT_OWN & set(f.relative_to(HARNESS).parts)]
    own = [
        f
        for f in own
        if not any(map(f.is_relative_to, (SERVICE, TOOLCHAINS, FRAMEWORKS, COMPARISONS))) and f not in BUILDS
    ]
    assert [line for file in at_least(1, own) for line in lines_with_a_name(file)] == []


def test_what_is_about_builds_of_one_library_names_no_kernel_package_and_no_other_toolchain():
    assert all(file.is_file() for file in at_least(1, BUILDS))
    others = re.compile(r"mhc|tilelang|tvm", re.IGNORECASE)
    named = {file.name for file in BUILDS if others.search(file.read_text(encoding="utf-8"))}
    assert named == set()


def test_every_room_is_looked_at():
    assert {"config", "diagnosis", "job", "doctor", "matrix", "report", "results", "run", "pipeline.py"} <= set(ROOMS)


def test_a_name_is_seen_in_any_letter_case_and_inside_a_word(tmp_path):
    for text in ("import torch", "UV_TORCH_BACKEND", "eager PyTorch", "TileLang's", "apache-tvm-ffi", "MHC_CACHE_DIR"):
        assert NAMES.search(text), text
    assert not NAMES.search("a compiler of kernels")
