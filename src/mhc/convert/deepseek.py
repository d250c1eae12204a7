"""DeepSeek's layout: ``fn``, ``scale``, ``base`` and, in training code, ``norm_weight``.

Its residual matrix comb is applied transposed (``out[n] = Σ_m comb[m, n] · residual[m]``), so that row (i, j) of our
h_res is row (j, i) of its residual rows. Everything else stands in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mhc.convert.layout import check_shape, streams_of, tensor_of, transpose_res
from mhc.convert.weights import ConnectionWeights, HeadWeights

# What a number of gates other than three says.
_NO_CONNECTION = {
    1: ": this is a head (head_from_deepseek)",
    2: ": two gates are a connection that does not mix the streams (as in HY-V4), which is not mHC",
}


def from_deepseek(
    tensors: Mapping[str, torch.Tensor],
    prefix: str = "",
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    post_scale: float = 2.0,
    iterations: int = 20,
    sinkhorn_eps: float = 1e-6,
) -> ConnectionWeights:
    """Return the weights of one hyper-connection of DeepSeek's layout in ours.

    The options' defaults are DeepSeek-V4's. :func:`mhc.convert.deepseek_options` reads them from a model's
    configuration.

    Args:
        tensors: tensors by name, of a whole model or of one connection.
        prefix: what stands before ``fn``, ``scale`` and ``base`` (and ``norm_weight``, where there is one) in the
            names: ``layers.0.hc_attn_`` in a released checkpoint, ``model.layers.0.attn_hc.`` in transformers.
        norm_eps: added to the mean square, inside the root (``rms_norm_eps``).
        pre_eps: added to h_pre (``hc_eps``).
        post_scale: what the sigmoid of h_post is multiplied by. Models have 2; TileKernels' ``post_mult_value`` is 1 by
            default.
        iterations: of Sinkhorn (``hc_sinkhorn_iters``; TileKernels' ``sinkhorn_repeat`` is 10 by default).
        sinkhorn_eps: added to the first softmax and to every sum of Sinkhorn (``hc_eps``).

    Returns:
        New tensors of the same dtypes, with ``form="deepseek"``.

    Raises:
        LookupError: a name is missing.
        TypeError: a dtype is not bf16, fp16 or fp32.
        ValueError: a shape does not fit.
    """
    names = ("fn", "scale", "base", "norm_weight")
    given = zip(names, _read("from_deepseek", tensors, prefix), strict=True)
    return connection_of(
        "from_deepseek",
        {name: (prefix + name, tensor) for name, tensor in given if tensor is not None},
        norm_eps=norm_eps,
        pre_eps=pre_eps,
        post_scale=post_scale,
        iterations=iterations,
        sinkhorn_eps=sinkhorn_eps,
        form="deepseek",
    )


def connection_of(caller: str, given: Mapping[str, tuple[str, torch.Tensor]], **options: Any) -> ConnectionWeights:
    """Return the weights of tensors whose residual matrix is applied transposed, by DeepSeek's names for them.

    Each comes with the name that it has where ``caller`` found it. ``options`` are those of the weights.

    Raises:
        ValueError: a shape does not fit.
    """
    (fn_name, fn), (scale_name, scale), (base_name, base) = (given[name] for name in ("fn", "scale", "base"))
    n = streams_of(fn.shape[0]) if fn.dim() == 2 and scale.numel() == 3 else None
    if n is None or not fn.shape[1] or fn.shape[1] % n:
        raise ValueError(
            f"{caller}: {fn_name} has shape {tuple(fn.shape)} and {scale_name} {tuple(scale.shape)}; a connection of "
            f"n streams has [n²+2n, n·hidden] and (3,){_NO_CONNECTION.get(scale.numel(), '')}"
        )
    check_shape(caller, scale_name, scale, (3,), fn)
    check_shape(caller, base_name, base, (fn.shape[0],), fn)
    gamma = None
    if "norm_weight" in given:
        gamma = _gamma(caller, *given["norm_weight"], fn, n)
    return ConnectionWeights(transpose_res(fn, n), scale.clone(), transpose_res(base, n), gamma, **options)


def to_deepseek(weights: ConnectionWeights, prefix: str = "") -> dict[str, torch.Tensor]:
    """Return the tensors in DeepSeek's layout by their names; ``norm_weight`` only where there is a gamma.

    Raises:
        ValueError: the weights are of another form of Sinkhorn than DeepSeek's code computes.
    """
    if weights.form != "deepseek":
        raise ValueError(
            f'to_deepseek: the weights have form={weights.form!r}, and code for this layout computes "deepseek"; '
            'dataclasses.replace(weights, form="deepseek", sinkhorn_eps=1e-6) accepts its numbers'
        )
    tensors = {
        "fn": transpose_res(weights.phi, weights.streams),
        "scale": weights.alpha.clone(),
        "base": transpose_res(weights.bias, weights.streams),
    }
    return _named(prefix, tensors, weights.gamma)


def head_from_deepseek(
    tensors: Mapping[str, torch.Tensor], prefix: str = "hc_head_", *, norm_eps: float = 1e-6, pre_eps: float = 1e-6
) -> HeadWeights:
    """Return the weights of a head of DeepSeek's layout in ours; only the shape of gamma differs.

    Args:
        tensors: tensors by name, of a whole model or of one head.
        prefix: ``hc_head_`` in a released checkpoint, ``model.hc_head.hc_`` in transformers.
        norm_eps: added to the mean square, inside the root (``rms_norm_eps``).
        pre_eps: added to the weights (``hc_eps``).

    Raises:
        LookupError, TypeError, ValueError: as :func:`from_deepseek`.
    """
    caller = "head_from_deepseek"
    fn, scale, base, norm_weight = _read(caller, tensors, prefix)
    n = fn.shape[0] if fn.dim() == 2 and scale.numel() == 1 else 0
    if not n or not fn.shape[1] or fn.shape[1] % n:
        connection = ": this is a connection (from_deepseek)" if scale.numel() == 3 else ""
        raise ValueError(
            f"{caller}: {prefix}fn has shape {tuple(fn.shape)} and {prefix}scale {tuple(scale.shape)}; a head of n "
            f"streams has [n, n·hidden] and (1,){connection}"
        )
    check_shape(caller, f"{prefix}base", base, (n,), fn)
    gamma = None if norm_weight is None else _gamma(caller, f"{prefix}norm_weight", norm_weight, fn, n)
    return HeadWeights(fn.clone(), scale.reshape(1).clone(), base.clone(), gamma, norm_eps, pre_eps)


def head_to_deepseek(head: HeadWeights, prefix: str = "hc_head_") -> dict[str, torch.Tensor]:
    """Return the tensors of a head in DeepSeek's layout by their names; ``norm_weight`` only where there is a gamma."""
    tensors = {"fn": head.phi.clone(), "scale": head.alpha.clone(), "base": head.bias.clone()}
    return _named(prefix, tensors, head.gamma)


def _read(
    caller: str, tensors: Mapping[str, torch.Tensor], prefix: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None]:
    fn, scale, base = (tensor_of(caller, tensors, prefix + name) for name in ("fn", "scale", "base"))
    name = f"{prefix}norm_weight"
    return fn, scale, base, tensor_of(caller, tensors, name) if name in tensors else None


def _gamma(caller: str, name: str, norm_weight: torch.Tensor, fn: torch.Tensor, streams: int) -> torch.Tensor:
    check_shape(caller, name, norm_weight, (fn.shape[1],), fn)
    return norm_weight.reshape(streams, -1).clone()


def _named(prefix: str, tensors: dict[str, torch.Tensor], gamma: torch.Tensor | None) -> dict[str, torch.Tensor]:
    if gamma is not None:
        tensors["norm_weight"] = gamma.flatten().clone()
    return {prefix + name: tensor for name, tensor in tensors.items()}
