"""The tensors of ``mhc_post``; the streams of a token are one row."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from mhc.backends.tilelang.tensors import declare
from mhc.ops.mhc_post import MhcPostSpec


def tensors_of(spec: MhcPostSpec, dtype: str, language: ModuleType) -> SimpleNamespace:
    """Return the parameters of one kernel: :func:`mhc.backends.tilelang.tensors.declare`."""
    tokens = language.dynamic("tokens")
    streams, hidden = spec.streams, spec.hidden
    shapes = {
        "x": (tokens, streams * hidden),
        "y": (tokens, hidden),
        "h_post": (tokens, streams),
        "h_res": (tokens, streams * streams),
        "out": (tokens, streams * hidden),
    }
    return declare(language, shapes, dtype, in_dtype=("x", "y", "out"), tokens=tokens)
