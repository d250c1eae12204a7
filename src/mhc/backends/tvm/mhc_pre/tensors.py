"""The tensors of ``mhc_pre``; the streams of a token are one row."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.tensors import Shapes, declare
from mhc.ops.mhc_pre import MhcPreSpec


def tensors_of(
    spec: MhcPreSpec, dtype: str, scratch: Callable[[MhcPreSpec, Any], Shapes] | None = None
) -> SimpleNamespace:
    """Return the parameters of one script: :func:`mhc.backends.tvm.tensors.declare`.

    ``scratch`` returns the shapes of the tensors that scripts hand on to each other. Without gamma, the parameters
    ``gamma`` and ``grad_gamma`` are handles that no script looks at.
    """
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes

    def shapes(tokens: Any) -> Shapes:
        return {
            "x": (tokens, width),
            "phi": (mixes, width),
            "alpha": (3,),
            "bias": (mixes,),
            "gamma": (width,),
            "h_in": (tokens, hidden),
            "h_post": (tokens, streams),
            "h_res": (tokens, streams * streams),
            **(scratch(spec, tokens) if scratch else {}),
        }

    tensors = declare(shapes, dtype, in_dtype=("x", "h_in"))
    if not spec.gamma:
        tensors.gamma = tensors.grad_gamma = T.handle
    return tensors
