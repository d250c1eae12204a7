"""Tensors of PyTorch as arrays of NumPy, in the same memory; bf16 comes from ``ml_dtypes``."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

DTYPES = {
    torch.float32: np.dtype(np.float32),
    torch.bfloat16: np.dtype(ml_dtypes.bfloat16),
    torch.float16: np.dtype(np.float16),
}


def array_of(tensor: torch.Tensor) -> NDArray[Any]:
    """Return the array that has the memory of a tensor, which lies on the CPU."""
    dtype = DTYPES[tensor.dtype]
    tensor = tensor.detach()
    if tensor.dtype == torch.bfloat16:  # which NumPy does not have
        tensor = tensor.view(torch.int16)
    return tensor.numpy().view(dtype)
