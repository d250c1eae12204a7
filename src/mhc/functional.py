"""The operators as functions: check the tensors, choose a backend, and call.

Leading dimensions are free everywhere, gradients flow to every tensor, and ``backend`` is a folder of
:mod:`mhc.backends`: ``reference``, ``inductor``, ``triton``, ``tilelang``, ``fastest`` and others. None takes
``triton`` on a GPU and ``reference`` elsewhere. A named backend is used or raises: there is no fallback.

Parameters (phi, alpha, bias, gamma) are bf16, fp16 or fp32, each for itself. Kernels get them in fp32, and their
gradients come in their own dtype; ``main_grad`` adds the gradients of narrow parameters up in fp32
(:mod:`mhc.parameters`). Autocast and PyTorch's settings of fp32 products change no result.

Derivatives of any order in reverse mode, ``torch.func.vmap``, ``torch.compile``, ``torch.export``, activation
checkpointing and CUDA graphs work. Forward mode is refused, and what gives fp8 has no gradient. With
``DTensor`` the tokens may be spread over ranks (:mod:`mhc.library.sharding`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from mhc import checks
from mhc.arguments import backend_of, read_tensors
from mhc.backends import default_backend, operators_of
from mhc.functional_single_pass import (
    MhcCoefficients,
    mhc_coefficients,
    mhc_read,
    mhc_single_pass,
    mhc_single_pass_fp8,
)
from mhc.library import (
    EXPAND,
    MHC_HEAD,
    MHC_POST,
    MHC_POST_PRE,
    MHC_PRE,
    MHC_PRE_NORM,
    MHC_PRE_NORM_FP8,
    SINKHORN,
    call,
    read,
)
from mhc.ops.mhc_single_pass_fp8 import GROUP
from mhc.ops.sinkhorn import FORMS
from mhc.parameters import DTYPES

__all__ = [
    "LIGER",
    "MhcCoefficients",
    "MhcPre",
    "can_post_pre",
    "expand",
    "mhc_coefficients",
    "mhc_head",
    "mhc_post",
    "mhc_post_pre",
    "mhc_pre",
    "mhc_pre_fp8",
    "mhc_read",
    "mhc_single_pass",
    "mhc_single_pass_fp8",
    "read_with_x",
    "sinkhorn",
]

LIGER = "liger"  # a form of Sinkhorn that needs no kernel of its own


class MhcPre(NamedTuple):
    """``h_in`` [..., hidden] in x's dtype, ``h_post`` [..., n] fp32, ``h_res`` [..., n, n] fp32 (before Sinkhorn)."""

    h_in: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor


def mhc_pre(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    post_scale: float = 2.0,
    precision: str = "fp32",
    main_grad: bool = False,
    backend: str | None = None,
) -> MhcPre:
    """Mix the streams into one layer input and make the coefficients of the write-back (:mod:`mhc.ops.mhc_pre`).

    Args:
        x: the residual streams, ``[..., n, hidden]``, bf16, fp16 or fp32.
        phi: weights of the dynamic mapping, ``[n²+2n, n·hidden]``; rows in the order pre, post, res.
        alpha: the three gates (pre, post, res), ``[3]``.
        bias: ``[n²+2n]``, in the order of phi's rows.
        gamma: RMSNorm weight ``[n, hidden]``, or None for ones.
        norm_weight: weight ``[hidden]`` of an RMSNorm behind the read, or None for none (:mod:`mhc.ops.mhc_pre_norm`).
        norm_eps: added to the mean square before the root, in both norms.
        pre_eps: added to h_pre.
        post_scale: the largest value of h_post; 2 in the paper.
        precision: of the products with phi, ``fp32`` or ``tf32`` (:mod:`mhc.ops.read`).
        main_grad: add the gradients of narrow parameters up in fp32 in ``main_grad`` (:mod:`mhc.parameters`).
        backend: see the module.

    Returns:
        ``h_in`` ``[..., hidden]`` in x's dtype, ``h_post`` ``[..., n]`` fp32, ``h_res`` ``[..., n, n]`` fp32 (before
        Sinkhorn).

    Raises:
        TypeError: a dtype is not one of the above.
        ValueError: a shape does not fit, the tensors are on several devices, or there is no such precision.
        LookupError: there is no such backend, or it does not have this operator.
        ImportError: the backend's toolchain is not installed.
    """
    operator = MHC_PRE if norm_weight is None else MHC_PRE_NORM
    weight = () if norm_weight is None else (norm_weight,)
    tensors = read_tensors(operator.name, x, (phi, alpha, bias, gamma), precision, main_grad, weight=weight)
    options = (norm_eps, pre_eps, post_scale, precision)
    return MhcPre(*call(operator, tensors, options, backend_of(backend, x, operator.name)))


def mhc_pre_fp8(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None,
    norm_weight: torch.Tensor,
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    post_scale: float = 2.0,
    precision: str = "fp32",
    power_of_two_scales: bool = False,
    backend: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Do what :func:`mhc_pre` does with a norm, and give the layer's input in fp8 (:mod:`mhc.ops.mhc_pre_norm_fp8`).

    The arguments are as in :func:`mhc_pre`, and the last as in :func:`mhc_single_pass_fp8`; hidden is a multiple of
    128. It is for serving: no tensor has a gradient.

    Returns:
        ``h_in`` ``[..., hidden]`` in ``torch.float8_e4m3fn``; its scales, ``[..., hidden/128]`` fp32; and ``h_post``
        and ``h_res`` as :func:`mhc_pre` gives them.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`, or hidden is no multiple of 128.
        RuntimeError: a tensor requires a gradient, and gradients are recorded.
    """
    op = MHC_PRE_NORM_FP8.name
    tensors = read_tensors(op, x, (phi, alpha, bias, gamma), precision, False, weight=(norm_weight,))
    checks.in_fp8(op, "mhc_pre", x.shape[-1], GROUP, tensors)
    options = (norm_eps, pre_eps, post_scale, precision, power_of_two_scales)
    h_in, scale, h_post, h_res = call(MHC_PRE_NORM_FP8, tensors, options, backend_of(backend, x, op))
    return h_in, scale, h_post, h_res


def read_with_x(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None = None,
    norm_weight: torch.Tensor | None = None,
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    post_scale: float = 2.0,
    precision: str = "fp32",
    main_grad: bool = False,
    iterations: int = 20,
    sinkhorn_eps: float | None = None,
    form: str = "paper",
    backend: str | None = None,
) -> tuple[torch.Tensor, MhcPre]:
    """Return x to hand on to :func:`mhc_post`, and what :func:`mhc_pre` gives, with ``h_res`` after :func:`sinkhorn`.

    For ordinary tensors in eager mode the two operators are one node of autograd, with the same kernels: that takes
    less time of Python. Elsewhere (a transform, tracing, ``DTensor``, a norm behind the read) they are called one after
    the other.

    The x that is returned is the same tensor in another place of autograd's graph: the gradient that arrives at it is
    added inside the gradient of the read. Where x itself goes to both, autograd adds the two gradients in a pass of its
    own over all streams.
    """
    if form in FORMS and iterations >= 1 and norm_weight is None:
        tensors = read_tensors("mhc_pre", x, (phi, alpha, bias, gamma), precision, main_grad)
        chosen = backend_of(backend_of(backend, x, "mhc_pre"), x, "sinkhorn")
        options = (norm_eps, pre_eps, post_scale, precision)
        sinkhorn_options = (iterations, FORMS[form] if sinkhorn_eps is None else sinkhorn_eps, form)
        results = read(tensors, options, sinkhorn_options, chosen)
        if results is not None:
            return results[0], MhcPre(*results[1:])
    h_in, h_post, logits = mhc_pre(
        x,
        phi,
        alpha,
        bias,
        gamma,
        norm_weight,
        norm_eps=norm_eps,
        pre_eps=pre_eps,
        post_scale=post_scale,
        precision=precision,
        main_grad=main_grad,
        backend=backend,
    )
    h_res = sinkhorn(logits, iterations=iterations, eps=sinkhorn_eps, form=form, backend=backend)
    return x, MhcPre(h_in, h_post, h_res)


def sinkhorn(
    logits: torch.Tensor,
    *,
    iterations: int = 20,
    eps: float | None = None,
    form: str = "paper",
    backend: str | None = None,
) -> torch.Tensor:
    """Make each matrix doubly stochastic (:mod:`mhc.ops.sinkhorn`).

    Args:
        logits: ``[..., n, n]`` fp32.
        iterations: how often columns and then rows are normalised, at least once.
        eps: added to the sums, as the form says; None is the form's own, 0 for ``paper``, else 1e-6.
        form: ``paper`` (equation 9), ``deepseek`` (the released code, in our orientation) or ``liger``, which is
            ``deepseek`` of the transposed matrix.
        backend: see the module.

    Returns:
        ``[..., n, n]`` fp32; rows sum to 1 up to ``eps``, columns as far as the iterations converged. In the form
        ``liger`` rows and columns change places.

    Raises:
        TypeError: ``logits`` is not fp32.
        ValueError: it is not square in its last two dimensions, ``iterations`` is below 1, or there is no such form.
        LookupError, ImportError: as :func:`mhc_pre`.
    """
    checks.logits_fit(logits, iterations, form, (*FORMS, LIGER), torch.float32)
    if form == LIGER:
        transposed = logits.mT.contiguous()
        return sinkhorn(transposed, iterations=iterations, eps=eps, form="deepseek", backend=backend).mT.contiguous()
    options = (iterations, FORMS[form] if eps is None else eps, form)
    return call(SINKHORN, (logits,), options, backend_of(backend, logits, "sinkhorn"))[0]


def mhc_post(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    *,
    backend: str | None = None,
) -> torch.Tensor:
    """Write the layer's output back and mix the streams (:mod:`mhc.ops.mhc_post`).

    Args:
        x: the residual streams, ``[..., n, hidden]``, bf16, fp16 or fp32.
        y: the layer's output, ``[..., hidden]`` in x's dtype.
        h_post: ``[..., n]`` fp32, from :func:`mhc_pre`.
        h_res: ``[..., n, n]`` fp32, from :func:`sinkhorn`; ``h_res[..., i, j]`` weighs stream j in stream i.
        backend: see the module.

    Returns:
        The new streams, ``[..., n, hidden]`` in x's dtype.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`.
    """
    checks.write_fits("mhc_post", x, y, h_post, h_res, DTYPES, torch.float32)
    return call(MHC_POST, (x, y, h_post, h_res), (), backend_of(backend, x, "mhc_post"))[0]


def mhc_post_pre(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None = None,
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    post_scale: float = 2.0,
    precision: str = "fp32",
    main_grad: bool = False,
    backend: str | None = None,
) -> tuple[torch.Tensor, MhcPre]:
    """Write one layer's output back and read the next layer's input in one operator (:mod:`mhc.ops.mhc_post_pre`).

    It gives what :func:`mhc_post` gives, and what :func:`mhc_pre` gives for that (arXiv 2512.24880, section 4). In the
    backward it saves the pass over the streams in which autograd adds two gradients. :func:`can_post_pre` tells whether
    a backend has it.

    x, y, h_post and h_res are arguments of :func:`mhc_post`, for the layer that gave y. phi and all after it are
    arguments of :func:`mhc_pre`, for the next layer.

    Returns:
        The new streams, ``[..., n, hidden]`` in x's dtype, and what :func:`mhc_pre` gives for them (``h_res`` before
        Sinkhorn).

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`.
    """
    checks.write_fits("mhc_post_pre", x, y, h_post, h_res, DTYPES, torch.float32)
    _, *parameters = read_tensors("mhc_post_pre", x, (phi, alpha, bias, gamma), precision, main_grad)
    options = (norm_eps, pre_eps, post_scale, precision)
    chosen = backend_of(backend, x, "mhc_post_pre")
    *results, out = call(MHC_POST_PRE, (x, y, h_post, h_res, *parameters), options, chosen)
    return out, MhcPre(*results)


def can_post_pre(backend: str | None, device: torch.device) -> bool:
    """Return whether the backend has :func:`mhc_post_pre`; None is the one that runs on ``device`` by default.

    Raises:
        LookupError: there is no such backend.
        ImportError: the backend's toolchain is not installed.
    """
    return ("mhc_post_pre", "forward") in operators_of(backend or default_backend(device))


def mhc_head(
    x: torch.Tensor,
    phi: torch.Tensor,
    alpha: torch.Tensor,
    bias: torch.Tensor,
    gamma: torch.Tensor | None = None,
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    precision: str = "fp32",
    main_grad: bool = False,
    backend: str | None = None,
) -> torch.Tensor:
    """Read the streams out after the last layer (:mod:`mhc.ops.mhc_head`).

    The arguments are as in :func:`mhc_pre`, but phi is ``[n, n·hidden]``, alpha is one gate, ``[1]``, and bias is
    ``[n]``; ``pre_eps`` is added to the weights.

    Returns:
        ``[..., hidden]`` in x's dtype.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`.
    """
    tensors = read_tensors("mhc_head", x, (phi, alpha, bias, gamma), precision, main_grad, head=True)
    options = (norm_eps, pre_eps, precision)
    return call(MHC_HEAD, tensors, options, backend_of(backend, x, "mhc_head"))[0]


def expand(x: torch.Tensor, streams: int, *, backend: str | None = None) -> torch.Tensor:
    """Make ``streams`` equal streams of one (:mod:`mhc.ops.expand`).

    Args:
        x: ``[..., hidden]``, bf16, fp16 or fp32.
        streams: n, at least 1.
        backend: see the module.

    Returns:
        ``[..., n, hidden]`` in x's dtype.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`.
    """
    checks.stream_fits(x, streams, DTYPES)
    return call(EXPAND, (x,), (streams,), backend_of(backend, x, "expand"))[0]
