"""Code that the two operators that read the streams share: ``mhc_pre`` and ``mhc_head``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import torch


class Reading(Protocol):
    """The inputs of such an operator, or of its gradient, as far as they decide the specialisation."""

    @property
    def x(self) -> torch.Tensor: ...
    @property
    def gamma(self) -> torch.Tensor | None: ...
    @property
    def norm_eps(self) -> float: ...
    @property
    def pre_eps(self) -> float: ...


@dataclass(frozen=True)
class ReadSpec:
    """The specialisation of a compiled kernel; the number of tokens is free.

    ``streams`` is n, ``hidden`` the width of one stream, ``dtype`` that of ``x`` and of what is read, ``gamma`` whether
    the RMSNorm weight is given; ``norm_eps`` and ``pre_eps`` are the two small constants of the equation.
    """

    streams: int
    hidden: int
    dtype: torch.dtype
    gamma: bool
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6

    @classmethod
    def of(cls, inputs: Reading) -> Self:
        """Return the specialisation that ``inputs`` ask for."""
        _, streams, hidden = inputs.x.shape
        return cls(streams, hidden, inputs.x.dtype, inputs.gamma is not None, inputs.norm_eps, inputs.pre_eps)

    @property
    def width(self) -> int:
        """Return the elements of one token over all streams, n·hidden."""
        return self.streams * self.hidden
