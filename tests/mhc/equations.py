"""The equations of every operator: its golden, and its baseline in eager PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from draws import Axes, options_of
from mhc.backends.reference.operators import KERNELS
from protocol import inputs_and_outputs, names_of


def golden(op: str, direction: str, *tensors: Any, **options: Any) -> Any:
    """Return what an operator gives in float64; gradients are those of autograd through the forward's equations."""
    return KERNELS[op, direction].golden(inputs_and_outputs(op, direction, tensors, options)[0])


def baseline(op: str, direction: str, *tensors: Any, **options: Any) -> None:
    """Have eager PyTorch compute an operator."""
    KERNELS[op, direction].run(*inputs_and_outputs(op, direction, tensors, options))


def saved(op: str, direction: str, arrays: Mapping[str, Any], axes: Axes) -> dict[str, Any]:
    """Return what an exact forward gives for these arrays."""
    given = [torch.from_numpy(arrays[n].astype(np.float64)) if n in arrays else None for n in names_of(op, direction)]
    exact = golden(op, direction, *given, **options_of(op, direction, axes))
    return {name: one.numpy() for name, one in exact._asdict().items()}
