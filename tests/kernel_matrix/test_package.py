"""The kernel package in the environments of its toolchains: its own tests, and a model that trains with it."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT, program

from kernel_matrix.config.plan import Job
from kernel_matrix.run.environments import venv
from kernel_matrix.run.executors import Request

pytestmark = pytest.mark.environments


@pytest.fixture
def python_of(matrix):
    """Return a function that returns the Python of a toolchain's environment, which is made if it is not there."""

    def prepared(toolchain: str, platform: str = "cpu-llvm") -> str:
        request = Request(ROOT, ROOT / "build", matrix, Job(platform, toolchain, ()), None, print)
        return str(venv.prepare(request).python)

    return prepared


def test_the_kernel_package_s_own_tests_pass_in_its_environment(python_of):
    plugins = ("-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider")
    done = program(python_of("reference"), "-m", "pytest", "-q", "-rs", *plugins, "tests/package")
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed, \d+ skipped", done.stdout), done.stdout
    # The next tests run what skips here.
    skips = re.findall(r"^SKIPPED .*$", done.stdout, re.MULTILINE)
    assert skips
    reasons = ("could not import 'triton'", "could not import 'jax'", "Triton's interpreter is off")
    assert all(line.split(": ", 1)[1].startswith(reasons) for line in skips), skips


def test_what_the_package_tests_of_triton_passes_in_its_environment(python_of):
    """These skip where there is no Triton, so here nothing may skip."""
    plugins = ("-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider")
    files = ("tests/package/test_launch.py", "tests/package/test_variants.py")
    done = program(python_of("triton-3.6"), "-m", "pytest", "-q", *plugins, *files)
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed in", done.stdout), done.stdout
    interpreted = ("tests/package/test_handed_on.py", "tests/package/test_fastest.py")
    done = program(python_of("triton-3.6"), "-m", "pytest", "-q", *plugins, *interpreted, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed in", done.stdout), done.stdout


def test_what_the_package_tests_of_pallas_passes_in_its_environment(python_of):
    """These skip where there is no JAX, so here nothing may skip."""
    plugins = ("-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider")
    done = program(python_of("pallas-0.10", "tpu"), "-m", "pytest", "-q", *plugins, "tests/package/test_pallas.py")
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ passed in", done.stdout), done.stdout


@pytest.mark.nightly
def test_a_transformer_trains_alike_with_every_backend(python_of, matrix, tmp_path):
    """200 steps from the same weights on the same batches: each loss halves, and the losses end almost equal."""
    losses = {}
    for toolchain in ("reference", "tvm-0.27", "tilelang-0.1.15"):
        cache = {"MHC_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
        backend = matrix.toolchains[toolchain].backend
        done = program(python_of(toolchain), "examples/train_transformer.py", "--backend", backend, **cache)
        assert done.returncode == 0, done.stderr
        first, last = re.search(rf"^{backend} first=(\S+) last=(\S+)$", done.stdout, re.MULTILINE).groups()
        losses[backend] = float(last)
        assert float(last) < 0.55 * float(first)
    assert max(losses.values()) - min(losses.values()) < 0.02 * losses["reference"], losses
