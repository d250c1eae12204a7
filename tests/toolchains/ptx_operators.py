"""Run the project's Triton kernels as PTX on a CPU: ``python ptx_operators.py sm_80 sm_90``, in Triton's environment.

For every variant of every operator, in both directions, a line of JSON has the largest error of each output against the
reference, over the largest number of the output, or what was raised.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from gpu_emulators.nvidia.triton_driver import emulated
from mhc.backends import load
from mhc.backends.in_turn import InTurn
from mhc.backends.triton.ahead import gpu_target
from mhc.backends.triton.prepared import Prepared
from mhc.backends.variants import Variants

SIZE = (7, 4, 200)  # tokens, streams, elements
DTYPES = (torch.bfloat16, torch.float32)
OPERATORS = ("expand", "mhc_post", "mhc_pre", "mhc_pre_norm", "mhc_head", "sinkhorn", "mhc_post_pre")


def inputs_of(op: str, size: tuple[int, int, int], dtype: torch.dtype) -> tuple[Any, Any, Any]:
    """Return an operator's module, inputs, and a function that makes the backward's inputs out of the outputs."""
    generator = torch.Generator().manual_seed(1)
    module = importlib.import_module(f"mhc.ops.{op}")
    tokens, n, hidden = size

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    def like(tensor: torch.Tensor) -> torch.Tensor:
        return normal(*tensor.shape).to(tensor.dtype)

    x, rows = normal(tokens, n, hidden).to(dtype), n if op == "mhc_head" else n * (n + 2)
    parameters = normal(rows, n * hidden) / 16, normal(1 if op == "mhc_head" else 3), normal(rows), normal(n, hidden)
    if op == "expand":
        return (
            module,
            module.ExpandInputs(x[:, 0].contiguous(), n),
            lambda out: module.ExpandBackwardInputs(like(out[0])),
        )
    if op == "sinkhorn":
        forward = module.SinkhornInputs(normal(tokens, n, n) * 2)
        return module, forward, lambda out: module.SinkhornBackwardInputs(forward.logits, like(out[0]))
    mixed = x, normal(tokens, hidden).to(dtype), normal(tokens, n), normal(tokens, n, n)
    if op == "mhc_post":
        forward = module.MhcPostInputs(*mixed)
        return module, forward, lambda out: module.MhcPostBackwardInputs(*forward, like(out[0]))
    if op == "mhc_head":
        forward = module.MhcHeadInputs(x, *parameters)
        return module, forward, lambda out: module.MhcHeadBackwardInputs(*forward[:5], out.m, out.r, like(out.out))
    if op in ("mhc_pre", "mhc_pre_norm"):
        name, weight = ("MhcPreNorm", [normal(hidden)]) if op == "mhc_pre_norm" else ("MhcPre", [])
        tensors = (x, *parameters, *weight)
        forward = getattr(module, f"{name}Inputs")(*tensors)

        def backward(out: Any) -> Any:
            grads = (like(one) for one in (out.h_in, out.h_post, out.h_res))
            return getattr(module, f"{name}BackwardInputs")(*tensors, *out[3:], *grads)

        return module, forward, backward
    forward = module.MhcPostPreInputs(*mixed, *parameters)

    def backward_of_both(out: Any) -> Any:
        grads = (like(one) for one in (out.h_in, out.next_h_post, out.next_h_res, out.out))
        return module.MhcPostPreBackwardInputs(*forward[:8], out.out, out.m, out.r, *grads)

    return module, forward, backward_of_both


def variants(op: str, direction: str, spec: Any, target: str) -> Mapping[str, Any]:
    """Return the kernels of an operator that run on a target, by name: not those that are others' kernels in turn."""
    kernel = load("triton", op, direction)
    each = kernel.supported(spec, target) if isinstance(kernel, Variants) else {"": kernel}
    return {name: one for name, one in each.items() if not isinstance(one, InTurn)}


def errors_of(kernel: Any, inputs: Any, out: Any, golden: Any, target: str) -> dict[str, float]:
    """Run a kernel, and return the error of each output."""
    for tensor in filter(lambda one: one is not None, out):
        tensor.fill_(float("nan"))
    tiles = kernel.configure(inputs.spec, gpu_target(target))
    with emulated(target):
        tensors = [one for one in (*inputs, *out) if isinstance(one, torch.Tensor)]
        Prepared(bare=False).launch(lambda: kernel.launches(inputs, out, tiles), tensors, inputs[0].device)
    pairs = zip(out._fields, out, golden, strict=True)
    return {
        name: float((result.double() - right.double()).abs().max() / right.double().abs().max())
        for name, result, right in pairs
        if result is not None
    }


def cases(target: str, operators: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the result of each variant."""
    for op in operators:
        for dtype in DTYPES:
            module, forward, backward = inputs_of(op, SIZE, dtype)
            outputs = module.empty_outputs(forward)
            load("reference", op, "forward").run(forward, outputs)
            for direction, inputs in (("forward", forward), ("backward", backward(outputs))):
                empty = module.empty_outputs if direction == "forward" else module.empty_grads
                golden = empty(inputs)
                load("reference", op, direction).run(inputs, golden)
                for name, kernel in variants(op, direction, inputs.spec, target).items():
                    case = {
                        "op": op,
                        "direction": direction,
                        "variant": name,
                        "target": target,
                        "dtype": str(dtype)[6:],
                    }
                    try:
                        yield case | {"errors": errors_of(kernel, inputs, empty(inputs), golden, target)}
                    except Exception as error:
                        yield case | {"raised": f"{type(error).__name__}: {error}"}


if __name__ == "__main__":
    chosen = tuple(word for word in sys.argv[1:] if word in OPERATORS) or OPERATORS
    for target in [word for word in sys.argv[1:] if word not in OPERATORS]:
        for case in cases(target, chosen):
            print(json.dumps(case), flush=True)
