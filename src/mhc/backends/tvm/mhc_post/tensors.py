"""The tensors of ``mhc_post``; the streams of a token are one row."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from mhc.backends.tvm.tensors import Shapes, declare
from mhc.ops.mhc_post import MhcPostSpec


def tensors_of(spec: MhcPostSpec, dtype: str, tokens: int | None = None) -> SimpleNamespace:
    """Return the parameters of one script: :func:`mhc.backends.tvm.tensors.declare`."""
    streams, hidden = spec.streams, spec.hidden

    def shapes(number: Any) -> Shapes:
        return {
            "x": (number, streams * hidden),
            "y": (number, hidden),
            "h_post": (number, streams),
            "h_res": (number, streams, streams),
            "out": (number, streams * hidden),
        }

    return declare(shapes, dtype, in_dtype=("x", "y", "out"), tokens=tokens)
