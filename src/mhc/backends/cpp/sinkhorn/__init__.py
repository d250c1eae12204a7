"""``sinkhorn`` and its gradient: a lane of a warp for each row of a matrix.

The forward may begin early, and so may the launch behind it: it leaves most of a GPU free.
"""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends.cpp.compilers import THREADS
from mhc.backends.cpp.devices import F32, I32, I64, Launch
from mhc.backends.cpp.hopper import Shape, launches_early
from mhc.backends.cpp.kernel import Kernel, cdiv
from mhc.ops.sinkhorn import (
    SinkhornBackwardInputs,
    SinkhornGrads,
    SinkhornInputs,
    SinkhornOutputs,
    SinkhornSpec,
)


def _launch(
    kernel: str, tensors: tuple[torch.Tensor, ...], spec: SinkhornSpec, shape: Shape | None = None
) -> list[Launch]:
    tokens = tensors[0].shape[:-2].numel()
    lanes = 1 << (spec.streams - 1).bit_length()  # as the kernel has them
    options: tuple[Any, ...] = (I64(tokens), I32(spec.iterations), F32(spec.eps), I32(spec.form == "deepseek"))
    return [Launch(kernel, (cdiv(tokens, THREADS // lanes), 1, 1), (*tensors, *options), shape)]


def _forward(inputs: SinkhornInputs, out: SinkhornOutputs) -> list[Launch]:
    # A block of mhc_pre has nearly all of a multiprocessor as shared memory, and begins while this one runs.
    shape = Shape(THREADS, shared_bytes=0, cluster=1, early=True, shared_percent=100)
    may_be_early = launches_early(inputs.logits.device)
    return _launch("sinkhorn_forward", (inputs.logits, out.matrix), inputs.spec, shape if may_be_early else None)


def _backward(inputs: SinkhornBackwardInputs, out: SinkhornGrads) -> list[Launch]:
    return _launch("sinkhorn_backward", (inputs.logits, inputs.grad_matrix, out.logits), inputs.spec)


FORWARD = Kernel("sinkhorn", ("sinkhorn_forward",), _forward)
BACKWARD = Kernel("sinkhorn", ("sinkhorn_backward",), _backward)
