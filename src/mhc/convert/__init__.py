"""Weights of released models: from other layouts to this package's, and back.

The converters only move numbers: a round trip is bit-exact, a dtype stays as it is, and gradients flow through. What a
layout does not hold (the small constants, the iterations, the form of Sinkhorn) is carried next to the tensors.
``docs/weights.md`` says how the layouts differ and which released models have which.
"""

from mhc.convert.deepseek import (
    from_deepseek,
    head_from_deepseek,
    head_to_deepseek,
    to_deepseek,
)
from mhc.convert.fold import fold_gamma
from mhc.convert.liger import from_liger, to_liger
from mhc.convert.megatron import from_megatron, to_megatron
from mhc.convert.model import deepseek_options, model_from_deepseek
from mhc.convert.transformer_engine import from_transformer_engine, to_transformer_engine
from mhc.convert.weights import FORMS, Coefficients, ConnectionWeights, HeadWeights

__all__ = [
    "FORMS",
    "Coefficients",
    "ConnectionWeights",
    "HeadWeights",
    "deepseek_options",
    "fold_gamma",
    "from_deepseek",
    "from_liger",
    "from_megatron",
    "from_transformer_engine",
    "head_from_deepseek",
    "head_to_deepseek",
    "model_from_deepseek",
    "to_deepseek",
    "to_liger",
    "to_megatron",
    "to_transformer_engine",
]
