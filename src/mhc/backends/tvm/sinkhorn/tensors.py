"""The tensors of ``sinkhorn``."""

from __future__ import annotations

from types import SimpleNamespace

from mhc.backends.tvm.tensors import declare
from mhc.ops.sinkhorn import SinkhornSpec


def tensors_of(spec: SinkhornSpec) -> SimpleNamespace:
    """Return the parameters of one script: :func:`mhc.backends.tvm.tensors.declare`."""
    streams = spec.streams
    return declare(lambda tokens: dict.fromkeys(("logits", "matrix"), (tokens, streams, streams)), "float32", ())
