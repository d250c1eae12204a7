"""A whole released model of DeepSeek's layout: its connections and heads by name, and its options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from mhc.convert.deepseek import from_deepseek, head_from_deepseek
from mhc.convert.layout import tensor_of
from mhc.convert.weights import ConnectionWeights, HeadWeights

_PROJECTION = re.compile(r"(?:^|[._])fn$")
_HEAD_OPTIONS = ("norm_eps", "pre_eps")


def model_from_deepseek(
    tensors: Mapping[str, torch.Tensor], **options: Any
) -> dict[str, ConnectionWeights | HeadWeights]:
    """Return all connections and heads among a model's tensors, by their prefixes, in the order of the names.

    Args:
        tensors: tensors by name; the model's other tensors are left alone.
        options: the options of :func:`mhc.convert.from_deepseek`; a head takes the two that it has.

    Raises:
        LookupError: there is no connection and no head, or one of them lacks a tensor.
        TypeError, ValueError: as :func:`mhc.convert.from_deepseek`.
    """
    converted: dict[str, ConnectionWeights | HeadWeights] = {}
    for prefix in (name.removesuffix("fn") for name in tensors if _PROJECTION.search(name)):
        if tensor_of("model_from_deepseek", tensors, f"{prefix}scale").numel() == 1:
            known = {name: options[name] for name in _HEAD_OPTIONS if name in options}
            converted[prefix] = head_from_deepseek(tensors, prefix, **known)
        else:
            converted[prefix] = from_deepseek(tensors, prefix, **options)
    if not converted:
        raise LookupError(f"model_from_deepseek: no name among {len(tensors)} ends in fn, as layers.0.hc_attn_fn does")
    return converted


def deepseek_options(config: Mapping[str, Any], *, single_pass: bool = False) -> dict[str, Any]:
    """Return the options of :func:`mhc.convert.from_deepseek` that a model's configuration (``config.json``) states.

    DeepSeek-V4 and GLM-5.3 have these names: ``hc_sinkhorn_iters``, ``hc_eps`` (of h_pre and of Sinkhorn), and
    ``rms_norm_eps`` or, in other code than DeepSeek's own, ``norm_eps``. A model that reads images has them in
    ``text_config``. The post multiplier is 2 in the code of these models, and no option.

    DeepSeek-V4.1 has the same tensors and options, and connects its layers in another way: with ``single_pass`` its
    options are returned, for :meth:`mhc.convert.ConnectionWeights.single_pass`.

    Raises:
        LookupError: one of them is missing.
        ValueError: the model connects its layers in another way than ``single_pass`` says.
    """
    text = config.get("text_config", config)
    for kind in (config.get("model_type"), text.get("model_type")):
        if str(kind).startswith("deepseek_v41") and not single_pass:
            raise ValueError(
                f"deepseek_options: in a {kind} each layer reads the streams with the h_pre of the layer before it; "
                "mhc_pre reads with its own: say single_pass=True, and make an mhc.SinglePassStack of the weights"
            )
    if single_pass and not str(config.get("model_type", text.get("model_type"))).startswith("deepseek_v41"):
        raise ValueError("deepseek_options: single_pass is for deepseek_v41; other models read with their own h_pre")
    norm = "norm_eps" if "norm_eps" in text else "rms_norm_eps"
    missing = [name for name in (norm, "hc_eps", "hc_sinkhorn_iters") if name not in text]
    if missing:
        raise LookupError(f"deepseek_options: the configuration has no {', '.join(missing)}")
    eps = float(text["hc_eps"])
    return {
        "norm_eps": float(text[norm]),
        "pre_eps": eps,
        "post_scale": 2.0,
        "iterations": int(text["hc_sinkhorn_iters"]),
        "sinkhorn_eps": eps,
    }
