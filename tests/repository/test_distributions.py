"""The distributions of this repository: what their wheels hold, and that each works where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from common import ROOT
from packaging.requirements import Requirement

from kernel_matrix.cli import commands
from kernel_matrix.config.locks import all_pins
from kernel_matrix.run.environments import venv

LOCKS = ROOT / "ci" / "locks"
# An extra that brings a library, and a command that needs it for its help.
EXTRAS = {"containers": ("shell", "--help")}

STEP = """
import torch, mhc
assert mhc.__version__ == {version!r}
x = torch.randn(3, 2, 8, requires_grad=True)
parameters = [torch.randn(8, 16), torch.ones(3), torch.zeros(8), torch.ones(2, 8)]
for parameter in parameters:
    parameter.requires_grad_()
h_in, h_post, h_res = mhc.mhc_pre(x, *parameters, backend="reference")
(h_in.sum() + h_post.sum() + h_res.square().sum()).backward()
assert all(tensor.grad is not None and tensor.grad.abs().max() > 0 for tensor in (x, *parameters))
print(mhc.__file__)
"""


def build(folder: Path, into: Path, *options: str) -> Path:
    venv.uv("build", *options, "--out-dir", str(into), str(folder))
    [wheel] = into.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> dict[str, Path]:
    """Build the wheel of each distribution; mhc's by way of its source archive, as ``python -m build`` does."""
    folder = tmp_path_factory.mktemp("wheels")
    made = {
        "kernel-matrix": build(ROOT, folder / "kernel-matrix", "--wheel"),
        "mhc": build(ROOT / "src" / "mhc", folder / "mhc"),
    }
    return {name: wheel.rename(folder / wheel.name) for name, wheel in made.items()}  # next to each other


@pytest.fixture
def empty(tmp_path) -> Path:
    """Make an environment that holds nothing, and return its interpreter."""
    venv.uv("venv", "--python", sys.executable, "--no-project", str(tmp_path / "env"))
    return tmp_path / "env" / "bin" / "python"


def packages_of(wheel: Path) -> dict[str, set[str]]:
    """Return the files of a wheel by the folder at its top."""
    files: dict[str, set[str]] = {}
    for name in zipfile.ZipFile(wheel).namelist():
        top, _, rest = name.partition("/")
        files.setdefault(top, set()).add(rest)
    return files


def sources(folder: Path, pattern: str) -> set[str]:
    files = {path.relative_to(folder) for path in folder.rglob(pattern) if path.is_file()}
    return {str(file) for file in files if "__pycache__" not in file.parts}


def execute(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run isolated: neither the folder nor PYTHONPATH helps to find a module."""
    return subprocess.run([python, "-I", *arguments], cwd=python.parent, capture_output=True, text=True, check=False)


def test_the_harness_s_wheel_holds_the_harness_and_no_kernel(wheels):
    files = packages_of(wheels["kernel-matrix"])
    assert set(files) == {"kernel_matrix", "kernel_matrix-0.1.0.dist-info"}
    harness, page = ROOT / "src" / "kernel_matrix", ROOT / "src" / "kernel_matrix" / "report" / "app"
    built = {f"report/app/dist/{file}" for file in sources(page / "dist", "*")}
    assert "report/app/dist/app.js" in built
    assert files["kernel_matrix"] == built | sources(harness, "*") - {f"report/app/{f}" for f in sources(page, "*")}
    assert "licenses/LICENSE" in files["kernel_matrix-0.1.0.dist-info"]


def test_the_kernels_wheel_holds_the_kernels_and_nothing_else(wheels):
    files = packages_of(wheels["mhc"])
    assert set(files) == {"mhc", "mhc-0.1.0.dist-info"}
    others = set().union(*(sources(ROOT / "src" / "mhc", kind) for kind in ("variants.toml", "*.cu", "*.h", "*.cc")))
    assert {"backends/triton/variants.toml", "backends/cpp/mhc_pre/mhc_pre.cu", "toolchain/runner/tvm.cc"} <= others
    assert files["mhc"] == sources(ROOT / "src" / "mhc", "*.py") | others
    assert "licenses/LICENSE" in files["mhc-0.1.0.dist-info"]


def test_the_kernels_have_the_same_licence():
    assert (ROOT / "src" / "mhc" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_all_is_every_extra_with_libraries_of_others():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert extras["all"] == ["kernel-matrix[containers,fuzz,trends]"]
    assert set(EXTRAS) < set(extras)


# Ask each command for its help, in one process: what a command cannot import none of them can.
HELP = """
import contextlib, io, json, sys
_, program, *names = sys.argv
sys.argv = [program]
from kernel_matrix import cli
told = {}
for name in names:
    output, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(error):
        try:
            status = cli.main([*name.split(), "--help"])
        except SystemExit as end:
            status = end.code
    told[name] = status or 0, output.getvalue(), error.getvalue()
print(json.dumps(told))
"""


@pytest.mark.slow
def test_the_harness_works_where_it_alone_is_installed(wheels, empty):
    venv.uv("pip", "install", "--python", str(empty), "-c", str(LOCKS / "harness.txt"), str(wheels["kernel-matrix"]))
    program = empty.with_name("kernel-matrix")
    usage = execute(empty, str(program), "--help")
    assert usage.returncode == 0, usage.stderr
    schema = execute(empty, str(program), "check", "--schema")
    assert schema.returncode == 0, schema.stderr
    assert schema.stdout.strip() == (ROOT / "matrix.schema.json").read_text().strip()
    assert "No module named 'mhc'" in execute(empty, "-c", "import mhc").stderr
    helped = execute(empty, "-c", HELP, str(program), *commands())
    assert helped.returncode == 0, helped.stderr
    for name, (status, output, error) in json.loads(helped.stdout).items():
        if status == 0:
            assert output.startswith(f"usage: kernel-matrix {name} "), name
            continue
        assert (status, output, error.count("\n")) == (2, "", 1), name
        assert f"@ file://{wheels['kernel-matrix']}'" in error
    doctor = execute(empty, str(program), "doctor", "--matrix", str(ROOT / "matrix.yaml"))
    assert "Docker: its library is not installed; the executor venv does without" in doctor.stdout
    for name, words in EXTRAS.items():
        refused = execute(empty, str(program), *words)
        assert (refused.returncode, f"the extra '{name}'" in refused.stderr) == (2, True), refused.stderr
        assert f"usage: kernel-matrix {words[0]}" in after_the_remedy(empty, refused.stderr, program, words)
    targets = execute(empty, "-c", "from kernel_matrix.tools.launches.targets import known; print(*known())")
    assert "sm_90" in targets.stdout, targets.stderr


def after_the_remedy(python: Path, error: str, program: Path, words: tuple[str, ...]) -> str:
    """Type what an error says installs an extra, as it stands, and return what its command prints then."""
    remedy = error.rpartition("brings: ")[2]
    variables = {**os.environ, "UV_CONSTRAINT": str(LOCKS / "harness.txt")}
    done = subprocess.run(["sh", "-c", remedy], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{remedy}: {done.stderr}"
    return execute(python, str(program), *words).stdout


@pytest.mark.slow
def test_the_kernels_work_where_they_alone_are_installed(wheels, empty, matrix):
    lock = LOCKS / "torch-2.13.cpu.txt"
    variables = venv.variables_for(matrix.installer, empty, lock)
    venv.uv("pip", "install", "--python", str(empty), "-c", str(lock), str(wheels["mhc"]), variables=variables)
    version = wheels["mhc"].name.split("-")[1]
    done = execute(empty, "-W", "ignore", "-c", STEP.format(version=version))
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(empty.parents[1])
    assert "No module named 'kernel_matrix'" in execute(empty, "-c", "import kernel_matrix").stderr


def test_the_extras_of_the_kernels_ask_for_what_the_matrix_requires(matrix):
    project = tomllib.loads((ROOT / "src" / "mhc" / "pyproject.toml").read_text())["project"]
    required, locked = {}, {}
    for toolchain in matrix.toolchains.values():
        if not toolchain.uses:  # it needs what the backends need that it uses
            required.setdefault(toolchain.backend, []).append(list(toolchain.requires))
            locked.setdefault(toolchain.backend, []).append(all_pins(ROOT, toolchain.lock))
    assert project["dependencies"] in required["reference"]
    with_more = {backend for backend, pins in required.items() if project["dependencies"] not in pins}
    assert set(project["optional-dependencies"]) == with_more
    assert with_more == {"triton", "tilelang", "tvm", "pallas", "cute", "triton_ascend", "tilelang_ascend"}
    for backend, asked in project["optional-dependencies"].items():
        wanted = {one.name: one.specifier for one in map(Requirement, asked)}
        assert {*wanted} in [{Requirement(one).name for one in pins} for pins in required[backend]], backend
        assert any(
            all(name in pins and wanted[name].contains(pins[name]) for name in wanted) for pins in locked[backend]
        ), backend
