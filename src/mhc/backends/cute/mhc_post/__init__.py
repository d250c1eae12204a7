"""``mhc_post`` and its gradients: a block of threads for each token."""

from __future__ import annotations

import torch

from mhc.backends.cute.compiler import Program
from mhc.backends.cute.driver import Launch
from mhc.backends.cute.kernel import Kernel
from mhc.backends.cute.mhc_post.backward import mhc_post_grad_coefficients, mhc_post_grad_rows
from mhc.backends.cute.mhc_post.forward import mhc_post_forward
from mhc.backends.cute.sizes import Sizes, sizes_of
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs, MhcPostSpec

_F32 = torch.float32


def _forward_program(spec: MhcPostSpec, sizes: Sizes) -> Program:
    return Program(mhc_post_forward, (spec.dtype, spec.dtype, _F32, _F32, spec.dtype), sizes)


def _rows_program(spec: MhcPostSpec, sizes: Sizes) -> Program:
    return Program(mhc_post_grad_rows, (spec.dtype, _F32, _F32, spec.dtype, spec.dtype), sizes)


def _coefficients_program(spec: MhcPostSpec, sizes: Sizes) -> Program:
    return Program(mhc_post_grad_coefficients, (spec.dtype, spec.dtype, spec.dtype, _F32, _F32), sizes)


def _forward(inputs: MhcPostInputs, out: MhcPostOutputs) -> list[Launch]:
    tensors = (inputs.x, inputs.y, inputs.h_post, inputs.h_res, out.out)
    program = _forward_program(inputs.spec, sizes_of(inputs.spec, tensors))
    return [Launch(program, (inputs.x.shape[:-2].numel(), 1, 1), tensors)]


def _backward(inputs: MhcPostBackwardInputs, out: MhcPostGrads) -> list[Launch]:
    """Return the launches; a gradient has the same bits whatever else is asked for."""
    x, y, h_post, h_res, grad_out, _ = inputs
    spec, grid = inputs.spec, (x.shape[:-2].numel(), 1, 1)
    launches = []
    if out.x is not None or out.y is not None:
        tensors = (grad_out, h_post, h_res, _or_scratch(out.x, x), _or_scratch(out.y, y))
        launches.append(Launch(_rows_program(spec, sizes_of(spec, tensors)), grid, tensors))
    if out.h_post is not None or out.h_res is not None:
        tensors = (grad_out, x, y, _or_scratch(out.h_post, h_post), _or_scratch(out.h_res, h_res))
        launches.append(Launch(_coefficients_program(spec, sizes_of(spec, tensors)), grid, tensors))
    return launches


def _or_scratch(grad: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """Return where a kernel writes a gradient: scratch if nobody asked for it."""
    return torch.empty_like(like) if grad is None else grad


FORWARD = Kernel(_forward, lambda spec: (_forward_program(spec, sizes_of(spec)),))
BACKWARD = Kernel(
    _backward, lambda spec: (_rows_program(spec, sizes_of(spec)), _coefficients_program(spec, sizes_of(spec)))
)
