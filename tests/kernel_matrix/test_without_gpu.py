"""Without a GPU its kernels are compiled all the same, and what a compiler cannot is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import RUN, environments_of, records_in, sh

from kernel_matrix.vendors.machine import detect

pytestmark = pytest.mark.environments

KINDS = {
    "cuda/sm_90/triton-3.6": "cubin",
    "rocm/gfx1030/triton-3.6": "hsaco",  # the emulator does not have gfx1030
    "cuda/sm_90/tilelang-0.1.8": "cubin",  # and 0.1.15: test_code_of_runs.py, the matrix
    "cuda/sm_90/tvm-0.27": "cubin",
    "rocm/gfx1030/tvm-0.27": "elf",
}
CANNOT = "rocm/gfx942/tilelang-0.1.8"
CASE = "mhc_post.forward/tokens7-streams4-hidden200-bf16-scale1-seed0"  # the quickest to compile of those that all have


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    """Compile one case with each compiler in one run, and return the folder of the results."""
    targets = {name.split("/")[1] for name in (*KINDS, CANNOT)}
    if any(targets & {*device.targets} for device in detect().devices):
        pytest.fail("this machine has the GPU; the tests are of a machine without one")
    build = environments_of(tmp_path_factory.mktemp("build"))
    cases = [word for name in (*KINDS, CANNOT) for word in ("--case", f"{name}/{CASE}")]
    done = sh(*RUN, "--executor", "venv", "--build", str(build), *cases)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing ran" in done.stdout
    assert f"{len(KINDS) + 1} cases: 1 known, {len(KINDS)} compiled" in done.stdout
    return build / "results"


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_gpu_kernel_is_compiled_without_the_gpu(compiled, name, kind):
    platform, _, toolchain = name.split("/")
    [record] = records_in(compiled, f"{platform}.{toolchain}")
    assert record.case == f"{name}/{CASE}"
    assert record.facts["artifact.kind"] == kind
    assert record.metrics["artifact.registers"] > 0
    assert record.metrics["artifact.bytes"] > 1000


def test_a_compiler_that_cannot_is_shown_with_its_exact_error(compiled):
    [record] = records_in(compiled, "rocm.tilelang-0.1.8")
    assert "Cannot find global function target.build.tilelang_hip_without_compile" in record.message
