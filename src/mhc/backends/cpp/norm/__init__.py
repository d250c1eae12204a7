"""The RMSNorm behind a read, with or without fp8, and its gradients; the operators that have it hand all over."""

from __future__ import annotations

from typing import Any

import torch

from mhc.backends.cpp.compilers import THREADS
from mhc.backends.cpp.devices import F32, I32, I64, Launch
from mhc.backends.cpp.kernel import Kernel, cdiv, whole
from mhc.backends.cpp.mhc_pre.launches import STAGE

_MOST_CHUNKS = 32  # of tokens that are summed apart


def _forward(inputs: Any, out: Any) -> list[Launch]:
    hidden = inputs.x.shape[-1]
    last = (I32(hidden), F32(inputs.norm_eps), whole(hidden, out.read, inputs.norm_weight, out.h_in))
    arguments = (out.read, inputs.norm_weight, out.h_in, out.s, getattr(out, "scale", None), *last)
    return [Launch("mhc_norm_forward", (inputs.x.shape[:-2].numel(), 1, 1), arguments)]


def _backward(inputs: Any, out: tuple[torch.Tensor, torch.Tensor | None]) -> list[Launch]:
    """Return the launches; ``out`` are the gradients of what was read, and of the weight where it is asked for."""
    grad_read, grad_weight = out
    tokens, hidden = inputs.x.shape[:-2].numel(), inputs.x.shape[-1]
    last = (I32(hidden), whole(hidden, inputs.read, inputs.norm_weight, inputs.grad_h_in, grad_read))
    arguments = (inputs.read, inputs.norm_weight, inputs.s, inputs.grad_h_in, grad_read, *last)
    launches = [Launch("mhc_norm_grad_read", (tokens, 1, 1), arguments)]
    if grad_weight is not None:
        chunk = cdiv(cdiv(tokens, min(_MOST_CHUNKS, cdiv(tokens, STAGE))), STAGE) * STAGE
        count, columns = cdiv(tokens, chunk), cdiv(hidden, THREADS)
        sums = torch.empty(count * hidden, dtype=torch.float32, device=inputs.x.device)
        arguments = (inputs.read, inputs.s, inputs.grad_h_in, sums, I64(tokens), I64(chunk), I32(hidden))
        launches.append(Launch("mhc_norm_weight_sums", (columns, count, 1), arguments, scratch=(sums,)))
        added = (sums, grad_weight, I32(count), I32(hidden))
        launches.append(Launch("mhc_norm_weight_add", (columns, 1, 1), added))
    return launches


def _scales(spec: Any) -> tuple[tuple[str, int], ...]:
    """Return the constant of fp8, where the specialisation has that."""
    return (("SCALES", 1 + spec.power_of_two_scales),) if hasattr(spec, "power_of_two_scales") else ()


_GRADIENTS = ("mhc_norm_grad_read", "mhc_norm_weight_sums", "mhc_norm_weight_add")
FORWARD = Kernel("norm", ("mhc_norm_forward",), _forward, _scales)
BACKWARD = Kernel("norm", _GRADIENTS, _backward)
