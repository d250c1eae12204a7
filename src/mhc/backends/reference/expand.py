"""``expand`` in eager PyTorch."""

from __future__ import annotations

import torch

from mhc.backends.reference.eager import widen, write
from mhc.ops.expand import ExpandInputs, ExpandOutputs


def equations(x: torch.Tensor, streams: int) -> ExpandOutputs:
    """Copy ``x`` [tokens, hidden] to every stream."""
    return ExpandOutputs(x.unsqueeze(1).expand(-1, streams, -1))


def golden(inputs: ExpandInputs) -> ExpandOutputs:
    """The same in float64."""
    return equations(*widen(inputs))


def run(inputs: ExpandInputs, out: ExpandOutputs, target: str | None = None) -> None:
    """Run eagerly on the device of the input; ``target`` changes nothing here."""
    write(equations(*inputs), out)
