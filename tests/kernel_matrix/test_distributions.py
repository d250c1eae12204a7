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
from conftest import ROOT
from packaging.requirements import Requirement

from kernel_matrix import plugins
from kernel_matrix.config.locks import all_pins
from kernel_matrix.run.environments import venv

LOCKS = ROOT / "ci" / "locks"
# The distributions other than the harness, each with a word that installs it and what is typed to see that it works.
BESIDE = {
    "launches": ("launches", "--help"),
    "bench": ("bench", "--help"),
    "calibrate": ("calibrate", "--help"),
    "caches": ("caches", "--help"),
    "fuzz": ("fuzz", "--help"),
    "sanitize": ("sanitize", "--help"),
    "probes": ("toolchains", "probe", "--help"),
    "containers": ("shell", "--help"),
    "adopt": ("init", "--help"),
    "serve": ("serve", "--help"),
    "ci": ("ci", "plan", "--help"),
    "send": ("send", "--help"),
}

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


# Several commands, one after the other, in one process: what each ends with and prints.
COMMANDS = """
import contextlib, io, json, sys
from kernel_matrix import cli
told = []
for words in json.loads(sys.argv[1]):
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            status = cli.main(words)
        except SystemExit as end:
            status = end.code or 0
    told.append([status, output.getvalue(), errors.getvalue()])
print(json.dumps(told))
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
        **{name: build(ROOT / "src" / f"kernel_matrix_{name}", folder / name, "--wheel") for name in BESIDE},
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


def said(python: Path) -> dict[str, tuple[int, str, str]]:
    """Return what the command of each distribution ends with and prints; a process for each would take ten seconds."""
    done = execute(python, "-c", COMMANDS, json.dumps([*BESIDE.values()]))
    assert done.returncode == 0, done.stderr
    return {name: tuple(told) for name, told in zip(BESIDE, json.loads(done.stdout), strict=True)}


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


@pytest.mark.parametrize("name", BESIDE)
def test_a_wheel_beside_the_harness_holds_its_own_modules(wheels, name):
    files, package = packages_of(wheels[name]), f"kernel_matrix_{name}"
    assert set(files) == {package, f"{package}-0.1.0.dist-info"}
    folder = ROOT / "src" / package
    assert files[package] == set().union(*(sources(folder, kind) for kind in ("*.py", "*.yaml", "*.j2")))
    assert {"licenses/LICENSE", "entry_points.txt"} <= files[f"{package}-0.1.0.dist-info"]


@pytest.mark.parametrize("name", ["mhc", *(f"kernel_matrix_{name}" for name in BESIDE)])
def test_every_distribution_has_the_same_licence(name):
    assert (ROOT / "src" / name / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_the_extras_of_the_harness_name_the_distributions_beside_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    for name in BESIDE:
        own = tomllib.loads((ROOT / "src" / f"kernel_matrix_{name}" / "pyproject.toml").read_text())["project"]
        assert extras[name] == [f"{own['name']}=={own['version']}"]
        assert f"kernel-matrix=={project['version']}" in own["dependencies"]
    assert extras["all"] == [
        "kernel-matrix[adopt,ci,containers,launches,probes,bench,caches,calibrate,fuzz,sanitize,serve,send,resources,trends]"
    ]
    assert set(plugins.EXTRAS.values()) == {*BESIDE}


@pytest.mark.slow
def test_the_harness_works_where_it_alone_is_installed(wheels, empty):
    venv.uv("pip", "install", "--python", str(empty), "-c", str(LOCKS / "harness.txt"), str(wheels["kernel-matrix"]))
    program = empty.with_name("kernel-matrix")
    usage = execute(empty, str(program), "--help")
    assert usage.returncode == 0, usage.stderr
    assert "usage: kernel-matrix" in usage.stdout
    schema = execute(empty, str(program), "check", "--schema")
    assert schema.returncode == 0, schema.stderr
    assert schema.stdout.strip() == (ROOT / "matrix.schema.json").read_text().strip()
    assert "No module named 'mhc'" in execute(empty, "-c", "import mhc").stderr
    refused, told = execute(empty, str(program), *BESIDE["launches"]), said(empty)
    assert (refused.returncode, refused.stdout, refused.stderr) == told["launches"]
    for name, (status, output, errors) in told.items():
        assert (status, output) == (2, "")
        assert errors.count("\n") == 1
        assert f"'kernel-matrix-{name} @ file://{wheels[name]}'" in errors
    assert "usage: kernel-matrix serve" in after_the_remedy(empty, told["serve"][2], program)
    doctor = execute(empty, str(program), "doctor", "--matrix", str(ROOT / "matrix.yaml"))
    assert "Docker: its library is not installed; the executor venv does without" in doctor.stdout
    venv.uv("pip", "install", "--python", str(empty), "--no-deps", *(str(wheels[name]) for name in BESIDE))
    venv.uv("pip", "install", "--python", str(empty), "-c", str(LOCKS / "harness.txt"), "docker")
    for name, (status, output, errors) in said(empty).items():
        assert status == 0, errors
        assert f"usage: kernel-matrix {' '.join(BESIDE[name][:-1])}" in output
    targets = execute(empty, "-c", "from kernel_matrix_launches.targets import known; print(*known())")
    assert "sm_90" in targets.stdout, targets.stderr


def after_the_remedy(python: Path, error: str, program: Path) -> str:
    """Type what an error says installs a distribution, as it stands, and return what its command prints then."""
    remedy = error.rpartition("not installed: ")[2]
    variables = {**os.environ, "UV_CONSTRAINT": str(LOCKS / "harness.txt")}
    done = subprocess.run(["sh", "-c", remedy], env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{remedy}: {done.stderr}"
    return execute(python, str(program), "serve", "--help").stdout


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
