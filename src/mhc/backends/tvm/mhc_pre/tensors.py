"""The tensors of ``mhc_pre`` and ``mhc_head``; the streams of a token are one row.

``mhc_head`` is ``mhc_pre`` without the coefficients that write back: its ``phi`` has the rows for h_pre alone, and
``alpha`` one gate. What it reads is called ``h_in`` here as well.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.tensors import Shapes, declare
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreSpec

Spec = MhcPreSpec | MhcHeadSpec


def writes_back(spec: Spec) -> bool:
    """Return whether the operator has the coefficients h_post and h_res."""
    return isinstance(spec, MhcPreSpec)


def operator(spec: Spec) -> str:
    """Return the operator's name; its scripts are called after it."""
    return "mhc_pre" if writes_back(spec) else "mhc_head"


def gates(spec: Spec) -> int:
    """Return the elements of ``alpha``: one for h_pre, and one each for h_post and h_res."""
    return 3 if writes_back(spec) else 1


def post_scale(spec: Spec) -> float:
    """Return the constant of h_post; without h_post it is not used."""
    return spec.post_scale if isinstance(spec, MhcPreSpec) else 0.0


def tensors_of(
    spec: Spec, dtype: str, scratch: Callable[[Any, Any], Shapes] | None = None, tokens: int | None = None
) -> SimpleNamespace:
    """Return the parameters of one script: :func:`mhc.backends.tvm.tensors.declare`.

    ``scratch`` returns the shapes of the tensors that scripts hand on to each other. Parameters that the operator does
    not have (``gamma`` where it is not given, ``h_post`` and ``h_res`` of ``mhc_head``, and their gradients) are
    handles that no script looks at.
    """
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes

    def shapes(number: Any) -> Shapes:
        return {
            "x": (number, width),
            "phi": (mixes, width),
            "alpha": (gates(spec),),
            "bias": (mixes,),
            "gamma": (width,),
            "h_in": (number, hidden),
            "h_post": (number, streams),
            "h_res": (number, streams * streams),
            "m": (number, mixes),
            "r": (number,),
            **(scratch(spec, number) if scratch else {}),
        }

    tensors = declare(shapes, dtype, in_dtype=("x", "h_in"), tokens=tokens)
    if not spec.gamma:
        tensors.gamma = tensors.grad_gamma = T.handle
    if not writes_back(spec):
        tensors.h_post = tensors.h_res = tensors.grad_h_post = tensors.grad_h_res = T.handle
    return tensors
