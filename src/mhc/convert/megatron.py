"""Megatron's layout: the parameters of ``HyperConnectionModule`` (megatron-core, at commit 023f5cf1).

Its projection, the order of its mixes and its residual matrix are DeepSeek's; its gates are three tensors of one
element. Its head is DeepSeek's, too: ``head_from_deepseek(tensors, "decoder.hc_head_")``, with the model's
``layernorm_epsilon`` for both eps.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from mhc.convert.deepseek import connection_of, to_deepseek
from mhc.convert.layout import GATES, gates_of, tensor_of
from mhc.convert.weights import ConnectionWeights

_NAMES = {"fn": "mapping_proj.weight", "base": "bias"}


def from_megatron(
    tensors: Mapping[str, torch.Tensor],
    prefix: str = "",
    *,
    iterations: int = 20,
    eps: float = 1e-6,
    norm_eps: float = 1e-12,
) -> ConnectionWeights:
    """Return the weights of one ``HyperConnectionModule`` in our layout.

    Its RMSNorm divides by the root plus 1e-6, and ours by the root of a sum. With ``norm_eps=1e-12`` the two are equal
    for streams of zeros; else the quotients are 1e-6 / rms of themselves apart. Its single-pass form
    (``mhc_single_pass``) has the eps inside of the root, as ours: say ``eps=config.mhc_epsilon,
    norm_eps=config.layernorm_epsilon``, and go on with :meth:`ConnectionWeights.single_pass`.

    Args:
        tensors: tensors by name, of a whole model or of one module.
        prefix: what stands before ``mapping_proj.weight``, ``bias``, ``alpha_pre``, ``alpha_post`` and ``alpha_res`` in
            the names: ``decoder.layers.0.self_attention_hyper_connection.``, for example.
        iterations: of Sinkhorn (``mhc_sinkhorn_iterations``).
        eps: added to h_pre, to the first softmax and to every sum of Sinkhorn.
        norm_eps: added to the mean square, inside the root.

    Returns:
        New tensors of the same dtypes, with ``form="deepseek"``.

    Raises:
        LookupError: a name is missing.
        TypeError: a dtype is not bf16, fp16 or fp32, or the gates have several.
        ValueError: a shape does not fit.
    """
    caller = "from_megatron"
    given = {name: (prefix + theirs, tensor_of(caller, tensors, prefix + theirs)) for name, theirs in _NAMES.items()}
    given["scale"] = f"{prefix}alpha_*", gates_of(caller, tensors, prefix)
    options = {"norm_eps": norm_eps, "pre_eps": eps, "iterations": iterations, "sinkhorn_eps": eps}
    return connection_of(caller, given, **options, form="deepseek")


def to_megatron(weights: ConnectionWeights, prefix: str = "") -> dict[str, torch.Tensor]:
    """Return the tensors in Megatron's layout by their names.

    Raises:
        ValueError: there is a gamma, which Megatron has not, or the weights are of another form of Sinkhorn.
    """
    if weights.gamma is not None:
        raise ValueError("to_megatron: Megatron has no gamma; weights.folded() folds it into phi")
    if weights.form != "deepseek" or weights.post_scale != 2.0:
        raise ValueError(
            f"to_megatron: the weights have form={weights.form!r} and post_scale={weights.post_scale}, and Megatron "
            'computes "deepseek" and 2; dataclasses.replace(weights, form="deepseek", post_scale=2.0) accepts them'
        )
    given = to_deepseek(weights)
    named = {theirs: given[name] for name, theirs in _NAMES.items()}
    named.update(zip(GATES, (gate.reshape(1).clone() for gate in given["scale"]), strict=True))
    return {prefix + name: tensor for name, tensor in named.items()}
