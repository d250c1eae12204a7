"""The tensors of ``mhc_pre``; the streams of a token are one row."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace

from mhc.backends.tilelang.mhc_pre.factors import factors_of
from mhc.backends.tilelang.tensors import declare
from mhc.ops.mhc_pre import MhcPreSpec


def tensors_of(spec: MhcPreSpec, dtype: str, language: ModuleType) -> SimpleNamespace:
    """Return the parameters of one kernel: :func:`mhc.backends.tilelang.tensors.declare`.

    Without gamma, the parameters ``gamma`` and ``grad_gamma`` have one element, which no kernel looks at.
    """
    tokens, splits = language.dynamic("tokens"), language.dynamic("splits")
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    shapes = {
        "x": (tokens, width),
        "phi": (mixes, width),
        "alpha": (3,),
        "bias": (mixes,),
        "gamma": (width if spec.gamma else 1,),
        "h_in": (tokens, hidden),
        "h_post": (tokens, streams),
        "h_res": (tokens, streams * streams),
        "factors": (tokens, factors_of(spec)),
        "sums": (splits, mixes * width),
        "small": (splits, 2 * mixes),
    }
    return declare(language, shapes, dtype, in_dtype=("x", "h_in"), tokens=tokens, splits=splits)
