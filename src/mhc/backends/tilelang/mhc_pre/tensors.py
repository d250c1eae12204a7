"""The tensors of ``mhc_pre`` and ``mhc_head``; the streams of a token are one row."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from mhc.backends.tilelang.mhc_pre.factors import columns_of_block, factors_of, gates_of, mixes_of, writes_back
from mhc.backends.tilelang.tensors import declare
from mhc.ops.read import ReadSpec


def tensors_of(spec: ReadSpec, dtype: str, language: ModuleType) -> SimpleNamespace:
    """Return the parameters of one kernel: :func:`mhc.backends.tilelang.tensors.declare`.

    The names come from ``mhc_pre``; ``h_in`` is ``out`` of ``mhc_head``. A parameter that the operator lacks has one
    element, which no kernel looks at: gamma and its gradient without gamma, h_post, h_res and their gradients in
    ``mhc_head``. ``factors`` has the factors of all tokens, ``factors_of_split`` is the same memory by splits; past the
    last token it is not written.
    """
    tokens, rows, splits, share, blocks = (
        language.dynamic(name) for name in ("tokens", "rows", "splits", "share", "blocks")
    )
    streams, hidden, width, mixes, gates = spec.streams, spec.hidden, spec.width, mixes_of(spec), gates_of(spec)
    back, factors = writes_back(spec), factors_of(spec).size
    shapes = {
        "x": (tokens, width),
        "phi": (mixes, width),
        "alpha": (gates,),
        "bias": (mixes,),
        "gamma": (width if spec.gamma else 1,),
        "h_in": (tokens, hidden),
        "h_post": (tokens, streams) if back else (1, 1),
        "h_res": (tokens, streams * streams) if back else (1, 1),
        "m": (tokens, mixes),
        "r": (tokens,),
        "factors": (rows, factors),
        "factors_of_split": (splits, share, factors),
        "sums": (splits, blocks, mixes, columns_of_block(spec)),
        "small": (splits, mixes + gates),
    }
    sizes = {"tokens": tokens, "splits": splits, "share": share, "blocks": blocks}
    return declare(language, shapes, dtype, in_dtype=("x", "h_in"), **sizes)
