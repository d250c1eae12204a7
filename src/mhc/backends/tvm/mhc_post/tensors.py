"""The tensors of ``mhc_post``; the streams of a token are one row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mhc.backends.tvm.tensors import Shapes, declare
from mhc.ops.mhc_post import MhcPostSpec


def tensors_of(spec: MhcPostSpec, dtype: str) -> SimpleNamespace:
    """Return the parameters of one script: :func:`mhc.backends.tvm.tensors.declare`."""
    streams, hidden = spec.streams, spec.hidden

    def shapes(tokens: Any) -> Shapes:
        return {
            "x": (tokens, streams * hidden),
            "y": (tokens, hidden),
            "h_post": (tokens, streams),
            "h_res": (tokens, streams, streams),
            "out": (tokens, streams * hidden),
        }

    return declare(shapes, dtype, in_dtype=("x", "y", "out"))
