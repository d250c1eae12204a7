"""Code that the two operators that read the streams share: ``mhc_pre`` and ``mhc_head``.

Both take a ``precision`` for their three products with ``phi`` (the projection, and in the backward the gradients of
``v`` and of ``phi``):

``fp32``
    Products of fp32 numbers, or as exact as those.
``tf32``
    The operands of the products may be rounded to TF32 (10 bits after the point), as tensor cores do. Sums are in fp32
    all the same, and everything else is as in ``fp32``. A backend without tensor cores may compute more exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import torch

PRECISIONS = ("fp32", "tf32")

_Spec = TypeVar("_Spec")


@dataclass(frozen=True)
class ReadSpec:
    """The specialisation of a compiled kernel; the number of tokens is free.

    ``streams`` is n, ``hidden`` the width of one stream, ``dtype`` the dtype of ``x`` and of what is read, ``gamma``
    whether the RMSNorm weight is given; ``norm_eps`` and ``pre_eps`` are the two small constants of the equation;
    ``precision`` is one of ``PRECISIONS``.
    """

    streams: int
    hidden: int
    dtype: torch.dtype
    gamma: bool
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6
    precision: str = "fp32"

    @property
    def width(self) -> int:
        """Return the elements of one token over all streams, n·hidden."""
        return self.streams * self.hidden


def spec_of(make: Callable[..., _Spec], inputs: Any, *others: Any) -> _Spec:
    """Return the specialisation that inputs ask for: ``make`` of the fields of :class:`ReadSpec` and of ``others``."""
    streams, hidden = inputs.x.shape[-2:]
    options = inputs.norm_eps, inputs.pre_eps, inputs.precision
    return make(streams, hidden, inputs.x.dtype, inputs.gamma is not None, *options, *others)


def part_of(kind: type[_Spec], spec: Any) -> _Spec:
    """Return the specialisation of an operator that is a part of another one: it has fewer fields."""
    return kind(*(getattr(spec, field.name) for field in fields(kind)))  # type: ignore[arg-type]
