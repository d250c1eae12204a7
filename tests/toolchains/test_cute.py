"""Facts that the backend ``cute`` relies on, and the numbers of its kernels, whose PTX runs on the CPU here.

No GPU is needed: ``gpu_emulators.nvidia`` runs the PTX. What ptxas makes of it runs on a GPU only.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from common import python_of
from in_environment import run

pytestmark = [pytest.mark.environments, pytest.mark.nightly]  # the matrix compiles these kernels

FACTS = """
import torch
from mhc.backends import load
from mhc.ops.mhc_post import MhcPostSpec, MhcPostInputs, empty_outputs
kernel = load("cute", "mhc_post")
for target in ("sm_80", "sm_90", "sm_100"):
    made = kernel.compile(MhcPostSpec(4, 200, torch.bfloat16), target)
    print(target, made.kind, made.data[:4] == b"\\x7fELF", sorted(made.resources), made.resources["registers"] > 8)
inputs = MhcPostInputs(torch.ones(1, 4, 8), torch.ones(1, 8), torch.ones(1, 4), torch.ones(1, 4, 4))
for call in (
    lambda: kernel.run(inputs, empty_outputs(inputs)),
    lambda: kernel.compile(MhcPostSpec(4, 200, torch.bfloat16), "gfx942"),
    lambda: kernel.compile(MhcPostSpec(17, 200, torch.bfloat16), "sm_90"),
):
    try:
        call()
    except ValueError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the interpreter of the toolchain's environment, which is made if it is not there."""
    return python_of("cute", "cuda")


def test_the_kernels_compile_without_a_gpu_and_say_what_they_do_not_do(python):
    *compiled, device, vendor, streams = run(python, "-c", FACTS).splitlines()
    keys = "['registers', 'shared_bytes', 'spill_bytes', 'stack_bytes', 'threads']"
    assert compiled == [f"{target} cubin True {keys} True" for target in ("sm_80", "sm_90", "sm_100")]
    assert device == "the cute backend runs on NVIDIA's GPUs only; without one there is compile()"
    assert vendor == "the cute backend compiles for NVIDIA's GPUs only, and the target is gfx942"
    assert streams.startswith("there are 17 streams; this backend takes up to 16")


def test_where_the_gpu_is_here_no_code_for_the_host_is_made(python, tmp_path):
    """The compiler thinks that this machine is the target, and the library that code for the host needs is another."""
    [library] = python.parents[1].glob("lib/python3.*/site-packages/torch/lib/libc10.so")
    code = FACTS[: FACTS.index("inputs =")].replace('("sm_80", "sm_90", "sm_100")', '("sm_90",)')
    here = {"CUTE_DSL_ARCH": "sm_90a", "CUTE_DSL_LIBS": str(library), "MHC_CACHE_DIR": str(tmp_path)}
    assert run(python, "-c", code, **here).splitlines()[-1].startswith("sm_90 cubin True")


def test_the_ptx_of_every_kernel_computes_what_the_reference_computes(python):
    lines = [line.split() for line in run(python, Path(__file__).with_name("cute_on_cpu.py")).splitlines()]
    assert {line[0] for line in lines} == {
        f"{op}.{direction}"
        for op in ("expand", "mhc_post", "mhc_pre", "mhc_head")
        for direction in ("forward", "backward")
    }
    limits = {"float32": 2e-6, "bfloat16": 4e-3}
    wrong = [line for line in lines if not float(line[3]) <= limits[line[2]]]
    assert not wrong
