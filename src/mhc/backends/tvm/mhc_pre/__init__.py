"""``mhc_pre``, ``mhc_head`` and their gradients in TVM, for LLVM's CPU targets and for GPUs.

The number of tokens is free. ``precision`` changes nothing: the products are in fp32, which is more exact than TF32.
"""

from __future__ import annotations

import torch

from mhc.backends.tvm.cpu import CpuForm
from mhc.backends.tvm.gpu import GpuForm
from mhc.backends.tvm.kernel import Kernel, Operands
from mhc.backends.tvm.mhc_pre import backward_cpu, backward_gpu, forward_cpu, forward_gpu
from mhc.ops.mhc_head import MhcHeadBackwardInputs, MhcHeadGrads, MhcHeadInputs, MhcHeadOutputs
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreInputs, MhcPreOutputs

_Backward = MhcPreBackwardInputs | MhcHeadBackwardInputs


def _parameters(inputs: MhcPreInputs | MhcHeadInputs | _Backward) -> Operands:
    """Return the forward's inputs, with a token's streams in one row."""
    return {
        "x": inputs.x.view(inputs.x.shape[0], -1),
        "phi": inputs.phi,
        "alpha": inputs.alpha,
        "bias": inputs.bias,
        "gamma": None if inputs.gamma is None else inputs.gamma.view(-1),
    }


def operands(inputs: MhcPreInputs | MhcHeadInputs, out: MhcPreOutputs | MhcHeadOutputs) -> Operands:
    if isinstance(out, MhcPreOutputs):
        coefficients = {"h_post": out.h_post, "h_res": out.h_res.view(inputs.x.shape[0], -1)}
    else:
        coefficients = {"h_post": None, "h_res": None}
    return {**_parameters(inputs), "h_in": out[0], **coefficients, "m": out.m, "r": out.r}


def _backward_operands(inputs: _Backward, out: MhcPreGrads | MhcHeadGrads) -> Operands:
    if isinstance(inputs, MhcPreBackwardInputs):
        grads = (inputs.grad_h_in, inputs.grad_h_post, inputs.grad_h_res.view(inputs.x.shape[0], -1))
    else:
        grads = (inputs.grad_out, None, None)
    parameters = _parameters(inputs)
    return {
        **parameters,
        "m": inputs.m,
        "r": inputs.r,
        **dict(zip(("grad_h_in", "grad_h_post", "grad_h_res"), grads, strict=True)),
        **{f"grad_{name}": _written(getattr(out, name), tensor) for name, tensor in parameters.items()},
        **{f"needs_{name}": int(getattr(out, name) is not None) for name in parameters},
    }


def _written(grad: torch.Tensor | None, tensor: torch.Tensor | None) -> torch.Tensor | None:
    """Return the memory for a gradient in its tensor's shape. If it is not asked for, nobody looks at the memory."""
    if tensor is None:
        return None
    return torch.empty_like(tensor) if grad is None else grad.view(tensor.shape)


def _forward(name: str) -> Kernel:
    return Kernel(CpuForm(name, forward_cpu.forward), GpuForm(name, forward_gpu.forward), operands)


def _backward(name: str) -> Kernel:
    gpu = GpuForm(name, backward_gpu.backward, backward_gpu.scratch)
    return Kernel(CpuForm(name, backward_cpu.backward), gpu, _backward_operands)


FORWARD, BACKWARD = _forward("mhc_pre"), _backward("mhc_pre_backward")
HEAD_FORWARD, HEAD_BACKWARD = _forward("mhc_head"), _backward("mhc_head_backward")
