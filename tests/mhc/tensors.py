"""Conversion between the matrix's NumPy arrays and the package's tensors."""

from __future__ import annotations

import numpy as np
import torch

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor's values as an array of the same dtype; bf16 becomes ml_dtypes' bfloat16, bit for bit."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        import ml_dtypes

        return tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()


def from_numpy(array: np.ndarray) -> torch.Tensor:
    """Return an array's values as a tensor of the same dtype; ml_dtypes' bfloat16 becomes bf16, bit for bit."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(array)
