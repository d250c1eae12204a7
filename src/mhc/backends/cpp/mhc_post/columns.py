"""The variant ``columns``: x in bf16, 16 bytes at a time, and a launch that may begin early."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import torch

from mhc.backends import Artifact
from mhc.backends.cpp.compilers import THREADS, artifact
from mhc.backends.cpp.devices import U32, Launch
from mhc.backends.cpp.hopper import Shape
from mhc.backends.cpp.kernel import ForHopper, Kernel, cdiv, refuse
from mhc.backends.cpp.source import Source
from mhc.ops.mhc_post import MhcPostBackwardInputs, MhcPostGrads, MhcPostInputs, MhcPostOutputs, MhcPostSpec

_PIECE = 8  # columns of a thread, as in columns.cu
_WARP, _MOST_THREADS = 32, 256  # of a block of the backward
_SHARED_PERCENT = 0  # all that can be is L1 cache; or it would keep the little that a Sinkhorn before it leaves

_FORWARD = "mhc_post_columns"
_BACKWARD = ("mhc_post_columns_backward", "mhc_post_columns_backward_some")  # all gradients, and some of them


class _Backward(ctypes.Structure):
    """The argument of the backward's kernels."""

    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in ("x", "y", "h_post", "h_res", "grad_out", "grad_x", "grad_y", "grad_h_post", "grad_h_res")
    )


class Columns(ForHopper):
    """``mhc_post`` in one direction, in one launch.

    ``kernels`` names all that there may be, ``launch`` returns the launch of a call, and ``threads`` tells how many
    threads a block has for rows of so many columns.
    """

    def __init__(
        self,
        plain: Kernel,
        kernels: tuple[str, ...],
        launch: Callable[[Any, Any], Launch],
        threads: Callable[[int], int],
    ) -> None:
        super().__init__(plain)
        self._kernels = kernels
        self._launch = launch
        self._threads = threads

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``sm_90``.

        Raises:
            NotSupportedError: the specialisation is not of this variant.
        """
        return artifact(self._source(spec, target), target, self._kernels, self._threads(spec.hidden))

    def _refusal(self, spec: MhcPostSpec) -> str | None:
        return f"hidden is {spec.hidden}, and a thread has {_PIECE} columns" if spec.hidden % _PIECE else None

    def _made(self, inputs: Any, out: Any, *room: torch.Tensor) -> tuple[Source, list[Launch]]:
        return self._source(inputs.spec, "sm_90"), [self._launch(inputs, out)]

    def _source(self, spec: MhcPostSpec, target: str) -> Source:
        refuse(self.supports(spec, target))
        constants = (("HIDDEN", spec.hidden),)
        return Source("mhc_post", spec.streams, spec.dtype, "columns", constants, (("sm_90", "sm_90a"),))


def forward(plain: Kernel) -> Columns:
    """Return the variant of the forward."""
    return Columns(plain, (_FORWARD,), _forward, lambda _: THREADS)


def backward(plain: Kernel) -> Columns:
    """Return the variant of the backward."""
    return Columns(plain, _BACKWARD, _backward, _threads)


def _forward(inputs: MhcPostInputs, out: MhcPostOutputs) -> Launch:
    pieces = inputs.y.numel() // _PIECE
    shape = Shape(THREADS, shared_bytes=0, cluster=1, early=True, shared_percent=_SHARED_PERCENT)
    return Launch(_FORWARD, (cdiv(pieces, THREADS), 1, 1), (*inputs, out.out, U32(pieces)), shape)


def _backward(inputs: MhcPostBackwardInputs, out: MhcPostGrads) -> Launch:
    *tokens, hidden = inputs.y.shape
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in (*inputs[:5], *out)]
    shape = Shape(_threads(hidden), shared_bytes=0, cluster=1, early=True, shared_percent=_SHARED_PERCENT)
    return Launch(_BACKWARD[None in addresses], (torch.Size(tokens).numel(), 1, 1), (_Backward(*addresses),), shape)


@functools.cache
def _threads(hidden: int) -> int:
    """Return the threads of a block of the backward, as columns.cu has them."""
    pieces = hidden // _PIECE
    turns = cdiv(pieces, _MOST_THREADS)
    return cdiv(cdiv(pieces, turns), _WARP) * _WARP
