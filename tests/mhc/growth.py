"""A case of many tokens is run with fewer as well: kernel_matrix.kit.checks.growth says what its error may do."""

from __future__ import annotations

from typing import Any

import torch

from constants import PARAMETERS
from kernel_matrix.kit.checks.growth import LEAST, ROWS, Point, hold

__all__ = ["Point", "fewer_than", "first_tokens", "hold"]


def fewer_than(tokens: int) -> list[int]:
    """Return the smaller numbers of tokens that a case of ``tokens`` is run with as well; none for a small case."""
    return [size for size in ROWS if size < tokens] if tokens >= LEAST else []


def first_tokens(inputs: Any, tokens: int) -> Any:
    """Return the inputs of the first tokens alone; the parameters stay whole."""
    every = inputs[0].shape[0]
    values = inputs._asdict()
    for name, value in values.items():
        if isinstance(value, torch.Tensor) and name not in PARAMETERS and value.shape[0] == every:
            values[name] = value[:tokens]
    return type(inputs)(**values)
