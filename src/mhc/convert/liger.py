"""Liger's layout: the parameters of ``LigerMHC`` (liger-kernel 0.8.5).

Its projection is transposed against ours, and its gates are three scalars. The order of the mixes is ours, and h_res is
applied as ours is. Its Sinkhorn normalises in the order of DeepSeek's code, but h_res is not transposed afterwards. So
it is our ``deepseek`` form on the transposed matrix; here that is ``form="liger"``.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from mhc.convert.layout import GATES, check_shape, gates_of, streams_of, tensor_of
from mhc.convert.weights import ConnectionWeights


def from_liger(
    tensors: Mapping[str, torch.Tensor],
    prefix: str = "",
    *,
    tmax: int = 20,
    rms_eps: float = 1e-6,
    pre_eps: float = 0.0,
    sinkhorn_eps: float = 1e-6,
    post_mult: float = 2.0,
) -> ConnectionWeights:
    """Return the weights of one ``LigerMHC`` in our layout.

    Args:
        tensors: tensors by name, of a whole model or of one ``LigerMHC``; the wrapped layer's tensors are left alone.
        prefix: what stands before ``phi``, ``b``, ``alpha_pre``, ``alpha_post`` and ``alpha_res`` in the names.
        tmax: our ``iterations``. This and the following have the names and defaults of ``LigerMHC``.
        rms_eps: our ``norm_eps``.
        pre_eps: added to h_pre.
        sinkhorn_eps: added to the first softmax and to every sum of Sinkhorn.
        post_mult: our ``post_scale``.

    Returns:
        New tensors of the same dtypes, with ``form="liger"``.

    Raises:
        LookupError: a name is missing.
        TypeError: a dtype is not bf16, fp16 or fp32, or the gates have several.
        ValueError: a shape does not fit.
    """
    caller = "from_liger"
    phi, b = (tensor_of(caller, tensors, prefix + name) for name in ("phi", "b"))
    n = streams_of(phi.shape[1]) if phi.dim() == 2 else None
    if n is None or not phi.shape[0] or phi.shape[0] % n:
        raise ValueError(f"{caller}: {prefix}phi has shape {tuple(phi.shape)}; n streams need [n·hidden, n²+2n]")
    check_shape(caller, f"{prefix}b", b, (phi.shape[1],), phi)
    return ConnectionWeights(
        phi=phi.T.clone(memory_format=torch.contiguous_format),
        alpha=gates_of(caller, tensors, prefix),
        bias=b.clone(),
        norm_eps=rms_eps,
        pre_eps=pre_eps,
        post_scale=post_mult,
        iterations=tmax,
        sinkhorn_eps=sinkhorn_eps,
        form="liger",
    )


def to_liger(weights: ConnectionWeights, prefix: str = "") -> dict[str, torch.Tensor]:
    """Return the tensors in Liger's layout by their names.

    Raises:
        ValueError: there is a gamma, which Liger has not, or the weights are of another form of Sinkhorn than Liger's.
    """
    if weights.gamma is not None:
        raise ValueError("to_liger: Liger has no gamma; weights.folded() folds it into phi")
    if weights.form != "liger":
        raise ValueError(
            f'to_liger: the weights have form={weights.form!r}, and Liger computes "liger", which differs where the '
            'iterations have not converged; dataclasses.replace(weights, form="liger", sinkhorn_eps=1e-6) accepts its '
            "numbers"
        )
    tensors = {"phi": weights.phi.T.clone(memory_format=torch.contiguous_format), "b": weights.bias.clone()}
    tensors.update(zip(GATES, (gate.clone() for gate in weights.alpha), strict=True))
    return {prefix + name: tensor for name, tensor in tensors.items()}
