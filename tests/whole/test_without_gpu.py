"""Without a GPU its kernels are compiled all the same, and what a compiler cannot is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from common import RUN, environments_of, records_in, sh
from covering import with_the_night

from kernel_matrix.vendors.machine import detect

pytestmark = pytest.mark.environments

# ``ci/nox -s matrix`` compiles all of these, so one is asked by day.
BY_DAY = "cuda/sm_90/triton-3.7"
KINDS = {
    BY_DAY: "cubin",
    "rocm/gfx1250/triton-3.7": "hsaco",
    "cuda/sm_90/tilelang-0.1.8": "cubin",
    "cuda/sm_90/tvm-0.27": "cubin",
    "rocm/gfx1250/tvm-0.27": "elf",
}
CANNOT = "rocm/gfx942/tilelang-0.1.8"
CASE = "mhc_post.forward/tokens7-streams4-hidden200-bf16-scale1-seed0"  # the quickest to compile of those that all have


@pytest.fixture(scope="module")
def compiled(request, tmp_path_factory) -> Path:
    """Compile one case with each compiler in one run, by day with one, and return the folder of the results."""
    names, told = (BY_DAY,), "1 case: 1 compiled"
    if with_the_night(request):
        names, told = (*KINDS, CANNOT), "6 cases: 1 known, 3 compiled, 2 pass (2 emulated)"
    targets = {name.split("/")[1] for name in names}
    if any(targets & {*device.targets} for device in detect().devices):
        pytest.fail("this machine has the GPU; the tests are of a machine without one")
    build = environments_of(tmp_path_factory.mktemp("build"))
    cases = [word for name in names for word in ("--case", f"{name}/{CASE}")]
    done = sh(*RUN, "--executor", "venv", "--build", str(build), *cases)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Nothing ran" in done.stdout
    assert told in done.stdout
    return build / "results"


@pytest.mark.parametrize(
    ("name", "kind"),
    [pytest.param(*each, marks=pytest.mark.nightly if each[0] != BY_DAY else ()) for each in KINDS.items()],
)
def test_a_gpu_kernel_is_compiled_without_the_gpu(compiled, name, kind):
    platform, _, toolchain = name.split("/")
    [record] = records_in(compiled, f"{platform}.{toolchain}")
    assert record.case == f"{name}/{CASE}"
    assert record.facts["artifact.kind"] == kind
    assert record.metrics["artifact.registers"] > 0
    assert record.metrics["artifact.bytes"] > 1000


@pytest.mark.nightly
def test_a_compiler_that_cannot_is_shown_with_its_exact_error(compiled):
    [record] = records_in(compiled, "rocm.tilelang-0.1.8")
    assert "Cannot find global function target.build.tilelang_hip_without_compile" in record.message
