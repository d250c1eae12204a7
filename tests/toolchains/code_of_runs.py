"""Kernels that are compiled for sm_90 as a run there does: the code of a run, and how often something was compiled."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from mhc.backends import load
from mhc.backends.variants import Variants
from mhc.ops import mhc_post, mhc_pre

TARGET = "sm_90"
POST = mhc_post.MhcPostInputs(*(torch.zeros(size, dtype=torch.bfloat16) for size in ((7, 4, 200), (7, 200))),
                              torch.zeros(7, 4), torch.zeros(7, 4, 4))  # fmt: skip
PRE = mhc_pre.MhcPreInputs(
    torch.zeros(7, 4, 200, dtype=torch.bfloat16), torch.zeros(24, 800), torch.zeros(3), torch.zeros(24), None
)
OPS = {"mhc_post": (POST, mhc_post.empty_outputs), "mhc_pre": (PRE, mhc_pre.empty_outputs)}


def of_triton(name: str) -> dict[str, int]:
    """Compile the launches as Triton does for a GPU that is here, and then ask for the code."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    from mhc.backends.triton.prepared import _compile

    class Driver:
        """In the place of NVIDIA's driver."""

        get_current_target = staticmethod(lambda: GPUTarget("cuda", 90, 32))
        get_current_device = staticmethod(lambda: 0)
        get_current_stream = staticmethod(lambda _=0: 0)

    driver.set_active(Driver())
    inputs, empty = OPS[name]
    kernel = load("triton", name)
    if isinstance(kernel, Variants):
        kernel = kernel.variants[kernel.choose(inputs.spec, TARGET, 7)]
    for launch in kernel.launches(inputs, empty(inputs), kernel.configure(inputs.spec, Driver.get_current_target())):
        _compile(launch)
    return counted(kernel, inputs.spec)


def of_tilelang(name: str) -> dict[str, int]:
    """Load the kernel as a run does, and then ask for the code."""
    from mhc.backends.tilelang.program import _gpu_kernel

    kernel, (inputs, _) = load("tilelang", name), OPS[name]
    assert kernel.code(inputs.spec, TARGET) is None, "nothing has run"
    _gpu_kernel(kernel._program, kernel.admitted(inputs.spec, TARGET), TARGET)
    return counted(kernel, inputs.spec)


def counted(kernel: object, spec: object) -> dict[str, int]:
    before = cubins()
    artifact = kernel.code(spec, TARGET)  # type: ignore[attr-defined]
    return {"run": before, "more": cubins() - before, **artifact.resources}


def cubins() -> int:
    """Return how many there are in the caches."""
    return len(list(Path(os.environ["CACHES"]).rglob("*.cubin")))


if __name__ == "__main__":
    backend, *ops = sys.argv[1:]
    print(json.dumps({op: {"triton": of_triton, "tilelang": of_tilelang}[backend](op) for op in ops}), flush=True)
    os._exit(0)
