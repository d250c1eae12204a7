"""``expand`` and its gradient: a block of threads for each token."""

from __future__ import annotations

from mhc.backends.cute.compiler import Program
from mhc.backends.cute.driver import Launch
from mhc.backends.cute.expand.kernels import expand_backward, expand_forward
from mhc.backends.cute.kernel import Kernel
from mhc.backends.cute.sizes import Sizes, sizes_of
from mhc.ops.expand import ExpandBackwardInputs, ExpandGrads, ExpandInputs, ExpandOutputs, ExpandSpec


def _forward_program(spec: ExpandSpec, sizes: Sizes) -> Program:
    return Program(expand_forward, (spec.dtype, spec.dtype), sizes)


def _backward_program(spec: ExpandSpec, sizes: Sizes) -> Program:
    return Program(expand_backward, (spec.dtype, spec.dtype), sizes)


def _forward(inputs: ExpandInputs, out: ExpandOutputs) -> list[Launch]:
    tensors = (inputs.x, out.out)
    program = _forward_program(inputs.spec, sizes_of(inputs.spec, tensors))
    return [Launch(program, (inputs.x.shape[:-1].numel(), 1, 1), tensors)]


def _backward(inputs: ExpandBackwardInputs, out: ExpandGrads) -> list[Launch]:
    tensors = (inputs.grad_out, out.x)
    program = _backward_program(inputs.spec, sizes_of(inputs.spec, tensors))
    return [Launch(program, (inputs.grad_out.shape[:-2].numel(), 1, 1), tensors)]


FORWARD = Kernel(_forward, lambda spec: (_forward_program(spec, sizes_of(spec)),))
BACKWARD = Kernel(_backward, lambda spec: (_backward_program(spec, sizes_of(spec)),))
