"""The kernel package in the environments of its toolchains: its own tests, and a model that trains with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from common import program, python_of

pytestmark = pytest.mark.environments


def passed(python: Path, *words: str, **variables: str) -> str:
    """Run tests of the package, and return what is printed once they have passed."""
    plugins = ("-p", "kernel_matrix.job.plugin", "-p", "no:cacheprovider")
    done = program(python, "-m", "pytest", "-q", *plugins, *words, **variables)
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_kernel_package_s_own_tests_pass_in_its_environment():
    output = passed(python_of("reference"), "-rs", "-m", "not nightly", "tests/package")
    assert re.search(r"\d+ passed, \d+ skipped", output), output
    # The next tests run what skips here.
    skips = re.findall(r"^SKIPPED .*$", output, re.MULTILINE)
    assert skips
    reasons = ("could not import 'triton'", "could not import 'jax'", "Triton's interpreter is off")
    assert all(line.split(": ", 1)[1].startswith(reasons) for line in skips), skips


@pytest.mark.nightly
def test_the_longest_of_the_package_s_own_tests_pass_too():
    of_jax = python_of("pallas-0.10", "tpu"), "tests/package/test_pallas.py"
    for python, tests in ((python_of("reference"), "tests/package"), of_jax):
        assert re.search(r"\d+ passed", passed(python, "-m", "nightly", tests))


def test_what_the_package_tests_of_triton_passes_in_its_environment():
    """These skip where there is no Triton, so here nothing may skip."""
    files = [f"tests/package/test_{name}.py" for name in ("launch", "variants", "handed_on", "fastest", "pre_norm")]
    assert re.search(r"\d+ passed in", passed(python_of("triton-3.7"), *files, TRITON_INTERPRET="1"))


def test_what_the_package_tests_of_pallas_passes_in_its_environment():
    """These skip where there is no JAX, so here nothing may skip."""
    output = passed(python_of("pallas-0.10", "tpu"), "-m", "not nightly", "tests/package/test_pallas.py")
    assert re.search(r"\d+ passed, \d+ deselected in", output), output


@pytest.mark.nightly
def test_a_transformer_trains_alike_with_every_backend(matrix, tmp_path):
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


def test_a_transformer_trains_with_plain_residual_connections_too():
    """The program tells how many tokens each took in a second."""
    arguments = ("--backend", "plain", "--backend", "reference", "--steps", "20", "--hidden", "16", "--layers", "1")
    done = program(python_of("reference"), "examples/train_transformer.py", *arguments, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    for backend in ("plain", "reference"):
        pattern = rf"^{backend} tokens/s=(\d+)\n{backend} first=(\S+) last=(\S+)$"
        rate, first, last = re.search(pattern, done.stdout, re.MULTILINE).groups()
        assert int(rate) > 0
        assert float(last) < float(first)


def test_a_transformer_is_served_with_and_without_mhc():
    """Requests that share a batch get the bytes that they get alone."""
    arguments = ("--backend", "plain", "--backend", "reference", "--requests", "6", "--hidden", "16", "--layers", "1")
    done = program(python_of("reference"), "examples/serve_transformer.py", *arguments, OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(\w+) bytes/s=(\d+) step_ms=\S+ alone=(\d of \d)$", done.stdout, re.MULTILINE)
    assert [(backend, alone) for backend, _, alone in found] == [("plain", "4 of 4"), ("reference", "4 of 4")]
    assert all(int(rate) > 0 for _, rate, _ in found)
