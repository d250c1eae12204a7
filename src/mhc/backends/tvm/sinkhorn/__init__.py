"""``sinkhorn`` and its gradient in TVM, for LLVM's CPU targets and for GPUs; the number of tokens is free."""

from __future__ import annotations

from mhc.backends.tvm.cpu import CpuForm
from mhc.backends.tvm.gpu import GpuForm
from mhc.backends.tvm.kernel import Kernel, Operands
from mhc.backends.tvm.sinkhorn import backward_cpu, backward_gpu, forward_cpu, forward_gpu
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads, SinkhornInputs, SinkhornOutputs


def _operands(inputs: SinkhornInputs, out: SinkhornOutputs) -> Operands:
    return {"logits": inputs.logits, "matrix": out.matrix}


def _backward_operands(inputs: SinkhornBackwardInputs, out: SinkhornGrads) -> Operands:
    return {"logits": inputs.logits, "grad_matrix": inputs.grad_matrix, "grad_logits": out.logits}


FORWARD = Kernel(CpuForm("sinkhorn", forward_cpu.forward), GpuForm("sinkhorn", forward_gpu.forward), _operands)
BACKWARD = Kernel(
    CpuForm("sinkhorn_backward", backward_cpu.backward),
    GpuForm("sinkhorn_backward", backward_gpu.backward),
    _backward_operands,
)
