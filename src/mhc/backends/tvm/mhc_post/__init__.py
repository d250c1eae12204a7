"""``mhc_post`` and its gradients in TVM, for LLVM's CPU targets and for GPUs; the number of tokens is free."""

from __future__ import annotations

import torch

from mhc.backends.tvm.cpu import CpuForm
from mhc.backends.tvm.gpu import GpuForm
from mhc.backends.tvm.kernel import Kernel, Operands
from mhc.backends.tvm.mhc_post import backward_cpu, backward_gpu, forward_cpu, forward_gpu
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs


def _inputs(inputs: MhcPostInputs | MhcPostBackwardInputs) -> Operands:
    return {
        "x": inputs.x.view(inputs.x.shape[0], -1),
        "y": inputs.y,
        "h_post": inputs.h_post,
        "h_res": inputs.h_res,
    }


def operands(inputs: MhcPostInputs, out: MhcPostOutputs) -> Operands:
    return {**_inputs(inputs), "out": out.out.view(inputs.x.shape[0], -1)}


def _backward_operands(inputs: MhcPostBackwardInputs, out: MhcPostGrads) -> Operands:
    """Return the tensors; the kernel computes every gradient, so that one has the same bits whatever is asked for."""
    tokens = inputs.x.shape[0]
    grads = [torch.empty_like(tensor) if grad is None else grad for tensor, grad in zip(inputs[:4], out, strict=True)]
    return {
        **_inputs(inputs),
        "grad_out": inputs.grad_out.view(tokens, -1),
        "grad_x": grads[0].view(tokens, -1),
        "grad_y": grads[1],
        "grad_h_post": grads[2],
        "grad_h_res": grads[3],
    }


FORWARD = Kernel(CpuForm("mhc_post", forward_cpu.forward), GpuForm("mhc_post", forward_gpu.forward), operands)
BACKWARD = Kernel(
    CpuForm("mhc_post_backward", backward_cpu.backward),
    GpuForm("mhc_post_backward", backward_gpu.backward),
    _backward_operands,
)
