"""``mhc_pre`` and its gradients in TVM, for LLVM's CPU targets and for GPUs; the number of tokens is free."""

from __future__ import annotations

from mhc.backends.tvm.cpu import CpuForm
from mhc.backends.tvm.gpu import GpuForm
from mhc.backends.tvm.kernel import Kernel, Operands
from mhc.backends.tvm.mhc_pre import backward_cpu, backward_gpu, forward_cpu, forward_gpu
from mhc.ops.mhc_pre import MhcPreBackwardInputs, MhcPreGrads, MhcPreInputs, MhcPreOutputs


def _inputs(tensors: MhcPreInputs | MhcPreBackwardInputs | MhcPreGrads) -> Operands:
    """Return the forward's inputs, or their gradients, with a token's streams in one row."""
    return {
        "x": tensors.x.view(tensors.x.shape[0], -1),
        "phi": tensors.phi,
        "alpha": tensors.alpha,
        "bias": tensors.bias,
        "gamma": None if tensors.gamma is None else tensors.gamma.view(-1),
    }


def _operands(inputs: MhcPreInputs, out: MhcPreOutputs) -> Operands:
    h_res = out.h_res.view(inputs.x.shape[0], -1)
    return {**_inputs(inputs), "h_in": out.h_in, "h_post": out.h_post, "h_res": h_res}


def _backward_operands(inputs: MhcPreBackwardInputs, out: MhcPreGrads) -> Operands:
    return {
        **_inputs(inputs),
        "grad_h_in": inputs.grad_h_in,
        "grad_h_post": inputs.grad_h_post,
        "grad_h_res": inputs.grad_h_res.view(inputs.x.shape[0], -1),
        **{f"grad_{name}": tensor for name, tensor in _inputs(out).items()},
    }


FORWARD = Kernel(CpuForm("mhc_pre", forward_cpu.forward), GpuForm("mhc_pre", forward_gpu.forward), _operands)
BACKWARD = Kernel(
    CpuForm("mhc_pre_backward", backward_cpu.backward),
    GpuForm("mhc_pre_backward", backward_gpu.backward, backward_gpu.scratch),
    _backward_operands,
)
