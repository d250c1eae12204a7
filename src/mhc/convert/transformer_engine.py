"""Transformer Engine's layout: what ``mhc_generate_mix_and_aggregate`` (transformer-engine 2.20) takes.

Its streams are the innermost dimension, so column ``c·n + i`` of its projection is our column ``i·hidden + c``. Its
residual matrix is applied transposed, as DeepSeek's is. Its Sinkhorn begins with the rows and has no eps: our form
``paper`` of the transposed matrix.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch

from mhc.convert.deepseek import connection_of, to_deepseek
from mhc.convert.layout import tensor_of
from mhc.convert.weights import ConnectionWeights

# What its code has as constants: nothing is added to h_pre, and the eps of the norm is that of fp32.
_CONSTANTS = {
    "form": "paper",
    "sinkhorn_eps": None,
    "pre_eps": 0.0,
    "norm_eps": torch.finfo(torch.float32).eps,
    "post_scale": 2.0,
}
_PADDED = 32  # rows of a phi that is padded for gradients that are added up in fp32


def from_transformer_engine(
    tensors: Mapping[str, torch.Tensor], prefix: str = "", *, iterations: int = 20
) -> ConnectionWeights:
    """Return the weights of one connection of Transformer Engine's layout in ours.

    The streams themselves are ``[..., hidden, n]`` there, and ``[..., n, hidden]`` here.

    Args:
        tensors: tensors by name, of a whole model or of one connection, with the names of the function's arguments.
        prefix: what stands before ``phi``, ``alpha``, ``beta`` and, where there is one, ``norm_weight`` in the names.
        iterations: of Sinkhorn.

    Returns:
        New tensors of the same dtypes, with ``form="paper"``. The padding of a phi of 32 rows is left away.

    Raises:
        LookupError: a name is missing.
        TypeError: a dtype is not bf16, fp16 or fp32.
        ValueError: a shape does not fit.
    """
    caller, names = "from_transformer_engine", {"fn": "phi", "scale": "alpha", "base": "beta"}
    if f"{prefix}norm_weight" in tensors:
        names["norm_weight"] = "norm_weight"
    given = {name: (prefix + theirs, tensor_of(caller, tensors, prefix + theirs)) for name, theirs in names.items()}
    (phi_name, phi), (beta_name, beta) = given["fn"], given["base"]
    if phi.shape[:1] == (_PADDED,):
        given["fn"] = phi_name, phi[: beta.numel()]
    given["base"] = beta_name, beta.flatten()
    weights = connection_of(caller, given, iterations=iterations, **_CONSTANTS)
    n = weights.streams
    gamma = None if weights.gamma is None else _turned(weights.gamma.flatten(), n, to_ours=True).unflatten(0, (n, -1))
    return dataclasses.replace(weights, phi=_turned(weights.phi, n, to_ours=True), gamma=gamma)


def to_transformer_engine(weights: ConnectionWeights, prefix: str = "") -> dict[str, torch.Tensor]:
    """Return the tensors in Transformer Engine's layout by their names; ``norm_weight`` only where there is a gamma.

    Raises:
        ValueError: an option of the weights is not the constant that its code has.
    """
    own = {name: getattr(weights, name) for name in _CONSTANTS}
    own["sinkhorn_eps"] = own["sinkhorn_eps"] or None  # 0 is the form's own
    if own != _CONSTANTS:
        others = ", ".join(f"{name}={own[name]!r}" for name in _CONSTANTS if own[name] != _CONSTANTS[name])
        accepted = ", ".join(f"{name}={value!r}" for name, value in _CONSTANTS.items() if own[name] != value)
        raise ValueError(
            f"to_transformer_engine: the weights have {others}, and its code has constants: "
            f"dataclasses.replace(weights, {accepted}) accepts its numbers"
        )
    given = to_deepseek(dataclasses.replace(weights, form="deepseek"))
    named = {
        "phi": _turned(given["fn"], weights.streams, to_ours=False),
        "alpha": given["scale"],
        "beta": given["base"].unsqueeze(0),
    }
    if "norm_weight" in given:
        named["norm_weight"] = _turned(given["norm_weight"], weights.streams, to_ours=False)
    return {prefix + name: tensor for name, tensor in named.items()}


def _turned(columns: torch.Tensor, streams: int, *, to_ours: bool) -> torch.Tensor:
    """Return the last dimension in the order of the other layout: the stream outermost in ours, innermost in theirs."""
    split = columns.unflatten(-1, (-1, streams) if to_ours else (streams, -1))
    return split.transpose(-1, -2).flatten(-2).clone(memory_format=torch.contiguous_format)
