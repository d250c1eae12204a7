"""The project as a user sees it: its own matrix on this machine's CPU, its sessions, and what its files promise."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from conftest import ROOT

from kernel_matrix.config.plan import Job
from kernel_matrix.results import junit
from kernel_matrix.results.record import Record
from kernel_matrix.run.environments import venv
from kernel_matrix.run.executors import InstallError, Request
from kernel_matrix.vendors.machine import detect

BUILD = ROOT / "build"
RUN = (sys.executable, "-m", "kernel_matrix", "run")


def sh(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def cpu_run(tmp_path_factory) -> Path:
    """Run every quick case on this CPU, in the environments of the lock files, and return the build folder."""
    if "x86-64-v3" not in detect().devices[0].targets:
        pytest.fail("these tests need a CPU of the level x86-64-v3, as matrix.yaml's cpu-llvm does")
    build = tmp_path_factory.mktemp("build")
    (BUILD / "envs").mkdir(parents=True, exist_ok=True)
    (build / "envs").symlink_to(BUILD / "envs")
    done = sh(*RUN, "--executor", "venv", "--platform", "cpu-llvm", "--build", str(build))
    assert done.returncode == 0, done.stdout + done.stderr
    return build


@pytest.mark.parametrize("toolchain", ["reference", "inductor", "tvm-0.27", "tilelang-0.1.8", "triton-3.6"])
def test_every_cpu_toolchain_runs_and_compares_its_cases(cpu_run, toolchain):
    records = junit.read(cpu_run / "results" / f"cpu-llvm.{toolchain}.xml")
    emulated = toolchain == "triton-3.6"
    assert Counter(record.outcome for record in records).keys() == ({"pass", "excluded"} if emulated else {"pass"})
    for record in records:
        if record.outcome == "excluded":
            assert "-bf16-" in record.case
            continue
        assert record.action == ("emulate" if emulated else "run")
        assert record.metrics["elements"] > 0
        outputs = [name.removesuffix(".max_abs") for name in record.metrics if name.endswith(".max_abs")]
        assert outputs
        for output in outputs:
            assert record.metrics[f"{output}.max_abs"] <= record.metrics[f"{output}.limit_max_abs"]
            if ".forward/" in record.case:
                assert record.metrics[f"{output}.limit_max_abs"] <= 1e-2 * 10  # the cap, at the largest input scale


def test_a_container_gives_the_records_of_an_environment(engine, cpu_run, tmp_path):
    """Compare states, errors to the last digit (norms to nine), digests of inputs and compiled code, and versions."""
    cells = [f"cpu-llvm/x86-64-v3/{name}/sinkhorn.forward" for name in ("tvm-0.27", "tilelang-0.1.15", "triton-3.6")]
    cells += ["cpu-llvm/x86-64-v3/reference/mhc_pre.forward", "cpu-llvm/x86-64-v3/reference/sinkhorn.backward"]
    selection = [word for cell in cells for word in ("--case", cell)]
    done = sh(*RUN, "--executor", "container", "--build", str(tmp_path), *selection)
    assert done.returncode == 0, done.stdout + done.stderr

    def known(folder: Path) -> dict[str, Record]:
        records = [record for path in sorted((folder / "results").glob("*.xml")) for record in junit.read(path)]
        return {record.case: record for record in records if record.case.rpartition("/")[0] in cells}

    def exact(record: Record) -> tuple:
        numbers = {
            name: value for name, value in record.metrics.items() if not name.startswith("time.") and not by_blas(name)
        }
        versions = {name: value for name, value in record.job.items() if name.startswith("version.")}
        words = (record.outcome, record.action, record.stage, record.message, record.attempts)
        return (*words, numbers, record.facts, versions)

    contained, outside = known(tmp_path), known(cpu_run)
    assert len(contained) > 50
    assert {case: exact(record) for case, record in contained.items()} == {
        case: exact(record) for case, record in outside.items()
    }
    for case, record in contained.items():
        sums = {name: value for name, value in record.metrics.items() if by_blas(name)}
        others = {name: value for name, value in outside[case].metrics.items() if by_blas(name)}
        assert sums == pytest.approx(others, rel=1e-9, abs=1e-13), case


def by_blas(name: str) -> bool:
    """Return whether BLAS adds up this figure. Two processes may add the same numbers in another order."""
    return name.endswith(("rel_fro", "cosine"))


def test_every_toolchain_was_given_the_same_bits(cpu_run):
    digests: dict[str, set[str]] = {}
    for path in (cpu_run / "results").glob("*.xml"):
        for record in junit.read(path):
            if "inputs.sha256" in record.facts:
                digests.setdefault(record.case.split("/", 3)[3], set()).add(record.facts["inputs.sha256"])
    assert all(len(found) == 1 for found in digests.values())
    assert len(set().union(*digests.values())) == len(digests) > 0, "and every case its own"


def test_inputs_stay_where_rounding_alone_is_inside_the_cap(cpu_run):
    """An exact result rounded to bf16 is off by up to 2**-7 below 4, and by more than the cap above."""
    for record in junit.read(cpu_run / "results" / "cpu-llvm.reference.xml"):
        scale = float(re.search(r"-scale([\d.]+)-", record.case).group(1))
        if "/mhc_pre.forward/" in record.case and "-bf16-" in record.case:
            assert record.metrics["h_in.max_abs"] <= 2**-7 * scale * 1.01, record.case


def test_the_report_of_that_run_is_green_where_it_ran_and_says_what_is_missing(cpu_run):
    done = sh(sys.executable, "-m", "kernel_matrix", "report", "--build", str(cpu_run))
    assert done.returncode == 1, "the other platforms have no results here"
    compat = json.loads((cpu_run / "site" / "compat.json").read_text())
    state = {cell["id"]: (cell["state"], cell["evidence"]) for cell in compat["cells"]}
    assert state["cpu-llvm/x86-64-v3/tvm-0.27/mhc_pre.forward"] == ("pass", "ran")
    assert state["cpu-llvm/x86-64-v3/triton-3.6/mhc_pre.forward"] == ("pass", "emulated")
    assert state["rocm/gfx942/triton-3.6/mhc_pre.forward"] == ("missing", "planned")


def test_the_kernel_package_s_own_tests_pass_in_its_environment(cpu_run):
    [python] = (cpu_run / "envs").glob("torch-2.13-cpu-*/bin/python")
    done = sh(
        str(python), "-m", "pytest", "-q", "-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider", "tests/mhc"
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed, 1 deselected", done.stdout)


def test_a_transformer_trains_alike_with_every_backend(cpu_run, matrix):
    """200 steps from the same weights on the same batches: each loss halves, and the losses end almost equal."""
    losses = {}
    for toolchain in ("reference", "tvm-0.27", "tilelang-0.1.15"):
        job = Job("cpu-llvm", toolchain, ())
        python = venv.prepare(Request(ROOT, cpu_run, matrix, job, None, print)).python
        cache = {"MHC_CACHE_DIR": str(cpu_run / "cache" / "mhc"), "OMP_NUM_THREADS": "1"}
        backend = matrix.toolchains[toolchain].backend
        done = sh(str(python), "examples/train_transformer.py", "--backend", backend, **cache)
        assert done.returncode == 0, done.stderr
        first, last = re.search(rf"^{backend} first=(\S+) last=(\S+)$", done.stdout, re.MULTILINE).groups()
        losses[backend] = float(last)
        assert float(last) < 0.55 * float(first)
    assert max(losses.values()) - min(losses.values()) < 0.02 * losses["reference"], losses


@pytest.mark.parametrize(
    ("toolchain", "target", "kind"),
    [
        ("triton-3.6", "sm_90", "cubin"),
        ("triton-3.6", "gfx942", "hsaco"),
        ("tilelang-0.1.8", "sm_90", "cubin"),
        ("tilelang-0.1.15", "sm_90", "cubin"),
        ("tvm-0.27", "sm_90", "cubin"),
        ("tvm-0.27", "gfx942", "elf"),
    ],
)
def test_a_gpu_kernel_is_compiled_without_the_gpu(cpu_run, toolchain, target, kind):
    platform = "cuda" if target.startswith("sm_") else "rocm"
    case = f"{platform}/{target}/{toolchain}/mhc_pre.forward/tokens7-streams4-hidden200-bf16-gamma-scale1-seed0"
    if any(target in device.targets for device in detect().devices):
        pytest.fail("this machine has the GPU; the test is of a machine without one")
    done = sh(*RUN, "--executor", "venv", "--build", str(cpu_run), "--case", case)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing ran" in done.stdout
    [record] = junit.read(cpu_run / "results" / f"{platform}.{toolchain}.xml")
    assert record.facts["artifact.kind"] == kind
    assert record.metrics["artifact.registers"] > 0
    assert record.metrics["artifact.bytes"] > 1000


def test_a_compiler_that_cannot_is_shown_with_its_exact_error(cpu_run):
    case = "rocm/gfx942/tilelang-0.1.8/mhc_pre.forward/tokens7-streams4-hidden200-bf16-gamma-scale1-seed0"
    done = sh(*RUN, "--executor", "venv", "--build", str(cpu_run), "--case", case)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 cases: 1 known" in done.stdout
    [record] = junit.read(cpu_run / "results" / "rocm.tilelang-0.1.8.xml")
    assert "Cannot find global function target.build.tilelang_hip_without_compile" in record.message


def test_an_environment_that_cannot_be_made_is_an_install_error_in_uv_s_words(tmp_path):
    lock = tmp_path / "lock.txt"
    lock.write_text("a-package-that-nobody-has-published==99\n")
    with pytest.raises(InstallError, match="a-package-that-nobody-has-published"):
        venv.uv("pip", "install", "--dry-run", "--python", sys.executable, "-r", str(lock))


def test_sessions_come_from_the_matrix(matrix):
    listed = sh(sys.executable, "-m", "nox", "-l").stdout
    for name, platform in matrix.platforms.items():
        text = f"Test on {platform.title}: run what has its hardware here, compile the rest."
        assert f"test-{name} -> {text}" in listed
    for name in ("matrix", "report", "tests", "lint"):
        assert re.search(rf"^[*-] {name} -> .+\.$", listed, re.MULTILINE)


def test_an_unknown_platform_in_a_session_s_name_is_bad_input():
    done = sh(sys.executable, "-m", "nox", "-s", "test-rokm")
    assert done.returncode == 2
    assert done.stderr.strip() == "nox -s test-rokm: matrix.yaml has no platform 'rokm'. Did you mean 'test-rocm'?"


def test_a_plain_nox_gets_what_the_harness_imports():
    """Outside .venv, nox makes an environment from the list in the noxfile."""
    text = (ROOT / "noxfile.py").read_text()
    script = re.search(r"^# /// script\n(.*?)^# ///$", text, re.DOTALL | re.MULTILINE).group(1)
    own = tomllib.loads(re.sub(r"^# ?", "", script, flags=re.MULTILINE))["dependencies"]
    assert own == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]


def test_a_job_imports_no_more_than_the_standard_library_pytest_and_numpy():
    """An import of the plugin must not import what only the harness has."""
    code = "import sys, kernel_matrix.job.plugin; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(sh(sys.executable, "-c", code).stdout.split())
    assert "numpy" in loaded
    assert not loaded & {"pydantic", "ruamel", "jinja2", "rich", "junitparser", "packaging", "torch", "mhc"}


def test_the_harness_imports_neither_torch_nor_the_kernel_package_and_the_reverse():
    for path in (ROOT / "src" / "kernel_matrix").rglob("*.py"):
        assert not re.search(r"^\s*(?:import|from) (?:torch|mhc)\b", path.read_text(), re.MULTILINE), path
    for path in (ROOT / "src" / "mhc").rglob("*.py"):
        assert "kernel_matrix" not in path.read_text(), path


def test_locks_pin_everything_and_name_no_index():
    for path in (ROOT / "ci" / "locks").glob("*.txt"):
        lines = [line for line in path.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
        assert lines, path
        assert all(re.match(r"^[\w.-]+==[\w.]+( ;.*)?$", line) for line in lines), path
        assert path.with_suffix(".in").exists()


def test_the_readme_s_commands_exist():
    readme = (ROOT / "README.md").read_text()
    sessions = {line.split()[1] for line in sh(sys.executable, "-m", "nox", "-l").stdout.splitlines() if " -> " in line}
    used = set(re.findall(r"ci/nox -s ([\w-]+)", readme))
    assert {"matrix", "tests"} <= used <= sessions
