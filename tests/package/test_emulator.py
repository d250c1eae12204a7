"""Programs for CPUs of another architecture: the runner, its guards, and what is said where a tool is missing."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest
import torch
from loops import at_least

from mhc.backends import NoDeviceError
from mhc.toolchain import cpus, emulator
from mhc.toolchain.cpus import CPUS, Cpu

KERNELS = """
#include "functions.h"
static int double_it(const float *x, float *y, int32_t n) { for (int i = 0; i < n; ++i) y[i] = 2 * x[i]; return 0; }
static int past(const float *x, float *y, int32_t n) { y[n] = 1; return 0; }
static int before(const float *x, float *y, int32_t n) { y[-1] = 1; return 0; }
static int refuse(const float *x, float *y, int32_t n) { return 7; }
static int crash(const float *x, float *y, int32_t n) { *(volatile int *)0 = 1; return 0; }
static int inputs(float *x, float *y, int32_t n) { x[0] = -1; return x && !y ? 0 : 1; }
MHC_FUNCTIONS(double_it, past, before, refuse, crash, inputs)
"""
HERE = Cpu(platform.machine(), "", (), "", (), "any")


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Put this machine's compiler and a program that runs its argument in the place of the cross tools."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / f"{HERE.machine}-linux-gnu-g++").symlink_to(shutil.which("g++"))
    emulated = folder / f"qemu-{HERE.machine}"
    emulated.write_text('#!/bin/sh\nshift 2\nexec "$@"\n')  # without "-cpu any"
    emulated.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("MHC_CACHE_DIR", "")
    return folder


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return the program of all kernels, compiled once."""
    folder = tmp_path_factory.mktemp("bin")
    (folder / f"{HERE.machine}-linux-gnu-g++").symlink_to(shutil.which("g++"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return emulator.program(HERE, {"kernel.cc": KERNELS}, [])


@pytest.fixture
def run(compiled, tools):
    program = emulator.Emulated(compiled, HERE)

    def call(*kernels: int, y: torch.Tensor | None = None):
        x = torch.arange(6, dtype=torch.float32).view(2, 3)
        program.run([(kernel, {"x": x, "y": y, "n": 6}) for kernel in kernels])
        return x

    return call


def test_results_of_several_calls_come_back(run):
    y = torch.full((6,), float("nan"))
    run(0, 0, y=y)
    assert y.tolist() == [0, 2, 4, 6, 8, 10]


def test_a_changed_input_comes_back_and_an_absent_tensor_is_null(run):
    assert run(5)[0, 0] == -1


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (1, "the kernel wrote past an end of y"),
        (2, "the kernel wrote past an end of y"),
        (3, "the kernel returned 7"),
        (4, "exit status -11"),
        (9, "the kernel returned -1"),
    ],
)
def test_a_kernel_that_goes_wrong_is_an_error(run, kernel, text):
    y = torch.zeros(6)
    with pytest.raises(RuntimeError, match=text):
        run(kernel, y=y)
    assert not y.any(), "nothing comes back"


def test_what_does_not_compile_is_the_compiler_s_error(tools):
    with pytest.raises(RuntimeError, match="no_such_name"):
        emulator.program(HERE, {"kernel.cc": "int main() { return no_such_name; }"}, [])


def test_without_the_tools_the_device_is_not_here_and_the_command_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, package in (("neoverse-v2", "aarch64"), ("rv64gcv", "riscv64")):
        with pytest.raises(NoDeviceError, match=f"sudo apt-get install g\\+\\+-{package}-linux-gnu"):
            emulator.compiler_of(CPUS[name])
        with pytest.raises(NoDeviceError, match="sudo apt-get install qemu-user-static"):
            emulator.emulator_of(CPUS[name])


def test_on_its_own_architecture_a_cpu_is_not_foreign(monkeypatch):
    monkeypatch.setattr(cpus.platform, "machine", lambda: "aarch64")
    assert cpus.foreign("neoverse-n1") is None
    assert cpus.foreign("rv64gcv") is CPUS["rv64gcv"]
    monkeypatch.setattr(cpus.platform, "machine", lambda: "x86_64")
    assert cpus.foreign("neoverse-n1") is CPUS["neoverse-n1"]
    assert cpus.foreign("x86-64-v3") is cpus.foreign(None) is None


def test_the_runner_is_in_the_distribution():
    text = (Path(emulator.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    suffixes = {path.suffix for path in emulator.RUNNER.iterdir() if path.is_file()}
    assert all(f'"*{suffix}"' in text for suffix in at_least(1, suffixes))
