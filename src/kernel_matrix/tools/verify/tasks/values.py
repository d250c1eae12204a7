"""Other values for the inputs of a task: by maps that keep what makes them valid (symmetry, zeros, whole numbers)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from kernel_matrix.tools.verify.tasks.task import flattened

_FEW = 4  # different values: a mask, a table of choices
_LOUD, _STEP = 100.0, 4096


def _signs(tensor: Any, factor: float) -> Any:
    """Give each value a sign by its own bits, so that equal values stay equal."""
    bits = tensor.contiguous().view(torch.int32) if tensor.dtype == torch.float32 else tensor.float().view(torch.int32)
    return torch.where((bits ^ (bits >> 5)) & 1 == 1, -tensor, tensor) * factor


def _middle(tensor: Any, _: float) -> Any:
    """Change a part of the middle: what a hash of some elements does not see."""
    flat, size = tensor.contiguous().view(-1).clone(), tensor.numel()
    places = torch.arange(size // 4 + size % 7, size - size // 4)[:: 1 + size // _STEP]
    flat[places] = flat[places] * 0.5 + 0.25
    return flat.view(tensor.shape)


def _rolled(tensor: Any, _: float) -> Any:
    """Put the same values elsewhere: every sum and extreme stays."""
    return tensor.flatten().roll(tensor.numel() // 2 + 1).view(tensor.shape)


def _loud(tensor: Any, _: float) -> Any:
    """Make a row of zeros, and one that is a hundred times as large."""
    if tensor.dim() >= 2:
        tensor = tensor.clone()
        tensor[0] = 0
        tensor[-1] = tensor[-1] * _LOUD
    return tensor


def _small(tensor: Any, _: float) -> Any:
    """Make everything small: an eps that stands at another place is seen."""
    return tensor * 1e-3


def _six(tensor: Any, factor: float) -> Any:
    """Make everything six times as large, with both signs: an approximation that ends somewhere is seen."""
    return _signs(tensor, 6 * factor)


def _shifted(tensor: Any, _: float) -> Any:
    """Add a hundred: a difference of two large numbers is seen. Zeros stay."""
    return torch.where(tensor == 0, tensor, tensor + 100)


def _less(tensor: Any, _: float) -> Any:
    """Take a hundred away: what begins at zero, and not at the first value, is seen."""
    return torch.where(tensor == 0, tensor, tensor - 100)


KINDS: Mapping[str, Callable[[Any, float], Any]] = {
    "signs": _signs,
    "middle": _middle,
    "rolled": _rolled,
    "loud": _loud,
    "small": _small,
    "six": _six,
    "shifted": _shifted,
    "less": _less,
}


def mapped(inputs: list[Any], kind: str, seed: int, others: list[Any] | None = None) -> list[Any]:
    """Return the inputs with other values; masks, tables and whole numbers stay as they are.

    ``others`` are the inputs for another seed: what is the same there is a table.
    """
    factor = float(np.random.default_rng(seed).uniform(0.5, 2.5))
    several: tuple[list[Any], list[Any]] = [], []
    for given, leaves in zip((inputs, inputs if others is None else others), several, strict=True):
        flattened(list(given), leaves)
    fixed = iter(tables(*several))
    return [_map(one, kind, factor, fixed) for one in inputs]


def tables(tensors: Sequence[Any], others: Sequence[Any]) -> list[bool]:
    """Return which tensors are the same for another seed, where not all are: a table may have a form that none says.

    A rotary embedding's has two halves that are equal.
    """
    free = [one.is_floating_point() and one.numel() > 1 for one in tensors]
    same = [torch.equal(one, other) for one, other in zip(tensors, others, strict=True)]
    if all(equal for asked, equal in zip(free, same, strict=True) if asked):
        return [False] * len(same)
    return [all(told) and torch.unique(one).numel() > 1 for *told, one in zip(free, same, tensors, strict=True)]


def _map(value: Any, kind: str, factor: float, fixed: Iterator[bool]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_map(one, kind, factor, fixed) for one in value)
    if isinstance(value, dict):
        return {name: _map(one, kind, factor, fixed) for name, one in value.items()}
    if not isinstance(value, torch.Tensor) or next(fixed) or not value.is_floating_point() or value.numel() < 2:
        return value
    if value.numel() > 16 and torch.unique(value.flatten()[:4096].float()).numel() <= _FEW:
        return value
    return KINDS[kind](value, factor)
