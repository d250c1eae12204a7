"""Run kernels of the backend ``cute`` on a CPU: ``python cute_on_cpu.py``, in an environment with CuTe DSL.

Each kernel is compiled to PTX, and that is run by ``gpu_emulators.nvidia``. For every output of every operator a line
tells the largest error against the reference, over the largest number of the output.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence
from typing import Any

import torch

from gpu_emulators.nvidia import Memory, Program
from mhc.backends import load
from mhc.backends.cute import compiler, kernel
from mhc.backends.cute.driver import Launch

_THREADS = 128  # of a block: the PTX does not say it

CASES: dict[str, tuple[int, int, int, torch.dtype]] = {
    "expand": (3, 4, 200, torch.bfloat16),
    "mhc_post": (3, 3, 77, torch.float32),
    "mhc_pre": (21, 4, 200, torch.float32),
    "mhc_head": (5, 4, 200, torch.bfloat16),
}


@functools.cache
def loaded(program: compiler.Program) -> Program:
    """Return the kernel for this CPU, out of the PTX for a GPU."""
    text, _ = compiler.compiled(program, "sm_90")
    return Program(text)


def run(launches: Sequence[Launch], device: torch.device, target: str | None) -> None:
    """Stand in for the launches by the driver."""
    for launch in launches:
        program = loaded(launch.program)
        pairs = zip(program.kernel.parameters, launch.arguments, strict=True)
        ran = program.launch(launch.grid, _THREADS, [argument(one.name, one.size, value) for one, value in pairs])
        assert not ran.findings, [str(finding) for finding in ran.findings]


def argument(name: str, size: int, value: torch.Tensor | int | None) -> Memory | bytes:
    """Return an argument as the kernel gets it."""
    if isinstance(value, torch.Tensor):
        return Memory(name, value.data_ptr(), value.numel() * value.element_size())
    return (value or 0).to_bytes(size, "little")


def inputs_of(op: str, tokens: int, n: int, hidden: int, dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Return an operator's module, inputs, and a function that makes the backward's inputs out of the outputs."""
    random = functools.partial(torch.randn, generator=torch.Generator().manual_seed(1))
    module = importlib.import_module(f"mhc.ops.{op}")

    def like(tensor: torch.Tensor) -> torch.Tensor:
        return random(*tensor.shape).to(tensor.dtype)

    x, rows = random(tokens, n, hidden).to(dtype), n if op == "mhc_head" else n * (n + 2)
    if op == "expand":
        forward = module.ExpandInputs(x[:, 0].contiguous(), n)
        return module, forward, lambda out: module.ExpandBackwardInputs(like(out.out))
    if op == "mhc_post":
        forward = module.MhcPostInputs(x, random(tokens, hidden).to(dtype), random(tokens, n), random(tokens, n, n))
        return module, forward, lambda out: module.MhcPostBackwardInputs(*forward, like(out.out))
    parameters = random(rows, n * hidden) / 16, random(1 if op == "mhc_head" else 3), random(rows), random(n, hidden)
    if op == "mhc_head":
        forward = module.MhcHeadInputs(x, *parameters)
        return module, forward, lambda out: module.MhcHeadBackwardInputs(*forward[:5], out.m, out.r, like(out.out))
    forward = module.MhcPreInputs(x, *parameters)

    def backward(out: Any) -> Any:
        return module.MhcPreBackwardInputs(
            *forward[:5], out.m, out.r, like(out.h_in), like(out.h_post), like(out.h_res)
        )

    return module, forward, backward


def report(op: str, direction: str, inputs: Any, empty: Any) -> Any:
    """Run the kernel and the reference, write a line for each output, and return the reference's outputs."""
    out, right = empty(inputs), empty(inputs)
    for tensor in out:
        tensor.fill_(float("nan"))
    load("cute", op, direction).run(inputs, out)
    load("reference", op, direction).run(inputs, right)
    for name, result, golden in zip(out._fields, out, right, strict=True):
        error = float((result.double() - golden.double()).abs().max() / golden.double().abs().max())
        print(f"{op}.{direction} {name} {str(result.dtype).removeprefix('torch.')} {error:.2e}", flush=True)
    return right


if __name__ == "__main__":
    kernel.run = run
    for op in sys.argv[1:] or CASES:
        module, forward, backward = inputs_of(op, *CASES[op])
        outputs = report(op, "forward", forward, module.empty_outputs)
        report(op, "backward", backward(outputs), module.empty_grads)
