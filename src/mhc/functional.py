"""The operators as functions: check the tensors, choose a backend, and call.

Leading dimensions are free everywhere, gradients flow to every tensor, and ``backend`` is a folder of
:mod:`mhc.backends`: ``reference``, ``inductor``, ``triton``, ``tilelang``, ``fastest`` and others. None takes
``triton`` on a GPU and ``reference`` elsewhere. A named backend is used or raises: there is no fallback.

Parameters (phi, alpha, bias, gamma) are bf16, fp16 or fp32, each for itself. Kernels get them in fp32, and their
gradients come in their own dtype; ``main_grad`` adds the gradients of narrow parameters up in fp32
(:mod:`mhc.parameters`). Autocast and PyTorch's settings of fp32 products change no result.

Derivatives of any order in reverse mode, ``torch.func.vmap``, ``torch.compile``, ``torch.export``, activation
checkpointing and CUDA graphs work. Forward mode is refused, and :func:`mhc_single_pass_fp8` has no gradient. With
``DTensor`` the tokens may be spread over ranks (:mod:`mhc.library.sharding`).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from mhc import checks
from mhc.backends import default_backend, load, operators_of
from mhc.library import (
    EXPAND,
    MHC_COEFFICIENTS,
    MHC_HEAD,
    MHC_POST,
    MHC_POST_PRE,
    MHC_PRE,
    MHC_READ,
    MHC_SINGLE_PASS,
    MHC_SINGLE_PASS_FP8,
    SINKHORN,
    call,
    read,
    refuse_other_formats,
)
from mhc.ops.mhc_single_pass_fp8 import GROUP
from mhc.ops.read import PRECISIONS
from mhc.ops.sinkhorn import FORMS
from mhc.parameters import DTYPES, wide

LIGER = "liger"  # a form of Sinkhorn that needs no kernel of its own


class MhcPre(NamedTuple):
    """``h_in`` [..., hidden] in x's dtype, ``h_post`` [..., n] fp32, ``h_res`` [..., n, n] fp32 (before Sinkhorn)."""

    h_in: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor


class MhcCoefficients(NamedTuple):
    """``h_pre`` and ``h_post`` [..., n], ``logits`` [..., c], all fp32: c is what phi has beyond 2n rows."""

    h_pre: torch.Tensor
    h_post: torch.Tensor
    logits: torch.Tensor


def mhc_pre(
    x: torch.Tensor,
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
) -> MhcPre:
    """Mix the streams into one layer input and make the coefficients of the write-back (:mod:`mhc.ops.mhc_pre`).

    Args:
        x: the residual streams, ``[..., n, hidden]``, bf16, fp16 or fp32.
        phi: weights of the dynamic mapping, ``[n²+2n, n·hidden]``; rows in the order pre, post, res.
        alpha: the three gates (pre, post, res), ``[3]``.
        bias: ``[n²+2n]``, in the order of phi's rows.
        gamma: RMSNorm weight ``[n, hidden]``, or None for ones.
        norm_eps: added to the mean square before the root.
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
    tensors = _read_tensors("mhc_pre", x, (phi, alpha, bias, gamma), precision, main_grad)
    options = (norm_eps, pre_eps, post_scale, precision)
    return MhcPre(*call(MHC_PRE, tensors, options, _backend(backend, x, "mhc_pre")))


def read_with_x(
    x: torch.Tensor,
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
    iterations: int = 20,
    sinkhorn_eps: float | None = None,
    form: str = "paper",
    backend: str | None = None,
) -> tuple[torch.Tensor, MhcPre]:
    """Return x to hand on to :func:`mhc_post`, and what :func:`mhc_pre` gives, with ``h_res`` after :func:`sinkhorn`.

    For ordinary tensors in eager mode the two operators are one node of autograd, with the same kernels: that takes
    less time of Python. Elsewhere (a transform, tracing, ``DTensor``) they are called one after the other.

    The x that is returned is the same tensor in another place of autograd's graph: the gradient that arrives at it is
    added inside the gradient of the read. Where x itself goes to both, autograd adds the two gradients in a pass of its
    own over all streams.
    """
    if form in FORMS and iterations >= 1:
        tensors = _read_tensors("mhc_pre", x, (phi, alpha, bias, gamma), precision, main_grad)
        chosen = _backend(_backend(backend, x, "mhc_pre"), x, "sinkhorn")
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
    return call(SINKHORN, (logits,), options, _backend(backend, logits, "sinkhorn"))[0]


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
    return call(MHC_POST, (x, y, h_post, h_res), (), _backend(backend, x, "mhc_post"))[0]


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
    _, *parameters = _read_tensors("mhc_post_pre", x, (phi, alpha, bias, gamma), precision, main_grad)
    options = (norm_eps, pre_eps, post_scale, precision)
    chosen = _backend(backend, x, "mhc_post_pre")
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
    tensors = _read_tensors("mhc_head", x, (phi, alpha, bias, gamma), precision, main_grad, head=True)
    options = (norm_eps, pre_eps, precision)
    return call(MHC_HEAD, tensors, options, _backend(backend, x, "mhc_head"))[0]


def mhc_read(x: torch.Tensor, pre: torch.Tensor, *, backend: str | None = None) -> torch.Tensor:
    """Read the layer's input from the streams with weights that are given (:mod:`mhc.ops.mhc_read`).

    Args:
        x: the residual streams, ``[..., n, hidden]``, bf16, fp16 or fp32.
        pre: the weight of each stream, ``[..., n]`` fp32; :func:`mhc_coefficients` makes such weights.
        backend: see the module.

    Returns:
        ``[..., hidden]`` in x's dtype.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`.
    """
    checks.read_fits("mhc_read", x, pre, DTYPES, torch.float32)
    return call(MHC_READ, (x, pre), (), _backend(backend, x, "mhc_read"))[0]


def mhc_coefficients(
    x: torch.Tensor,
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
) -> MhcCoefficients:
    """Make the coefficients of the streams as :func:`mhc_pre` does, and read nothing (:mod:`mhc.ops.mhc_coefficients`).

    The arguments are as in :func:`mhc_pre`, but phi is ``[2n+c, n·hidden]`` and bias ``[2n+c]`` for any c.

    Returns:
        ``h_pre`` and ``h_post`` ``[..., n]``, and ``logits`` ``[..., c]``, which a mixer (:mod:`mhc.mixers`) makes a
        residual matrix of. All are fp32.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`.
    """
    tensors = _read_tensors("mhc_coefficients", x, (phi, alpha, bias, gamma), precision, main_grad, any_mixes=True)
    options = (norm_eps, pre_eps, post_scale, precision)
    return MhcCoefficients(*call(MHC_COEFFICIENTS, tensors, options, _backend(backend, x, "mhc_coefficients")))


def mhc_single_pass(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    pre: torch.Tensor,
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
    main_grad: bool = False,
    backend: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor, MhcCoefficients]:
    """Write one layer's output back, read and normalise the next one's input (:mod:`mhc.ops.mhc_single_pass`).

    x, y, h_post and h_res are arguments of :func:`mhc_post`, pre of :func:`mhc_read`, and phi to gamma of
    :func:`mhc_coefficients`. The next layer's input is read from the new streams with pre and normalised by RMSNorm
    with ``norm_weight``, ``[hidden]``; ``norm_eps`` belongs to both norms.

    Returns:
        The new streams, ``[..., n, hidden]``, and the next layer's input, ``[..., hidden]``, both in x's dtype, and
        what :func:`mhc_coefficients` gives for the new streams.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`.
    """
    op = "mhc_single_pass"
    tensors = _single_pass_tensors(
        op, (x, y, h_post, h_res, pre), (phi, alpha, bias, gamma), norm_weight, precision, main_grad
    )
    options = (norm_eps, pre_eps, post_scale, precision)
    h_in, *coefficients, out = call(MHC_SINGLE_PASS, tensors, options, _backend(backend, x, op))
    return out, h_in, MhcCoefficients(*coefficients)


def mhc_single_pass_fp8(
    x: torch.Tensor,
    y: torch.Tensor,
    h_post: torch.Tensor,
    h_res: torch.Tensor,
    pre: torch.Tensor,
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
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, MhcCoefficients]:
    """Do what :func:`mhc_single_pass` does, and give the layer's input in fp8 (:mod:`mhc.ops.mhc_single_pass_fp8`).

    The arguments are as in :func:`mhc_single_pass`; hidden is a multiple of 128. It is for serving: no tensor has a
    gradient. With ``power_of_two_scales`` a scale is rounded up to a power of two (UE8M0).

    Returns:
        The new streams, ``[..., n, hidden]`` in x's dtype; the next layer's input, ``[..., hidden]`` in
        ``torch.float8_e4m3fn``; its scales, ``[..., hidden/128]`` fp32, one for each 128 columns, by which the numbers
        in fp8 are to be multiplied; and what :func:`mhc_coefficients` gives for the new streams.

    Raises:
        TypeError, ValueError, LookupError, ImportError: as :func:`mhc_pre`, or hidden is no multiple of 128.
        RuntimeError: a tensor requires a gradient, and gradients are recorded.
    """
    op, parameters = "mhc_single_pass_fp8", (phi, alpha, bias, gamma)
    tensors = _single_pass_tensors(op, (x, y, h_post, h_res, pre), parameters, norm_weight, precision, False)
    checks.multiple_of(op, "hidden", x.shape[-1], GROUP)
    checks.for_serving(op, "mhc_single_pass", tensors)
    options = (norm_eps, pre_eps, post_scale, precision, power_of_two_scales)
    h_in, scale, *coefficients, out = call(MHC_SINGLE_PASS_FP8, tensors, options, _backend(backend, x, op))
    return out, h_in, scale, MhcCoefficients(*coefficients)


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
    return call(EXPAND, (x,), (streams,), _backend(backend, x, "expand"))[0]


def _backend(name: str | None, x: torch.Tensor, op: str) -> str:
    """Return the backend's name, after checking that it has the operator and that its toolchain imports."""
    refuse_other_formats(op)
    chosen = name or default_backend(x.device)
    if not torch.compiler.is_compiling():
        load(chosen, op)
    return chosen


def _read_tensors(
    op: str,
    x: torch.Tensor,
    parameters: tuple[torch.Tensor | None, ...],
    precision: str,
    main_grad: bool,
    *,
    head: bool = False,
    any_mixes: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """Return the tensors of a read, the parameters in fp32, or raise if something does not fit x."""
    streams, hidden = checks.streams_of(op, x, DTYPES)
    mixes = checks.mixes_of(parameters[0], streams) if any_mixes else None
    shapes = checks.shapes_of_parameters(streams, hidden, head=head, mixes=mixes)
    checks.one_of(op, "precision", precision, PRECISIONS)
    named = zip(checks.PARAMETERS, parameters, shapes, strict=True)
    return (x, *[_parameter(op, x, name, tensor, shape, main_grad) for name, tensor, shape in named])


def _single_pass_tensors(
    op: str,
    of_tokens: tuple[torch.Tensor, ...],
    parameters: tuple[torch.Tensor | None, ...],
    norm_weight: torch.Tensor,
    precision: str,
    main_grad: bool,
) -> tuple[torch.Tensor | None, ...]:
    """Return the tensors of a single pass, the parameters in fp32, or raise if something does not fit x."""
    x, y, h_post, h_res, pre = of_tokens
    checks.write_fits(op, x, y, h_post, h_res, DTYPES, torch.float32)
    checks.read_fits(op, x, pre, DTYPES, torch.float32)
    _, *mapping = _read_tensors(op, x, parameters, precision, main_grad, any_mixes=True)
    weight = _parameter(op, x, "norm_weight", norm_weight, x.shape[-1:], main_grad)
    return (*of_tokens, *mapping, weight)


def _parameter(
    op: str, x: torch.Tensor, name: str, tensor: torch.Tensor | None, shape: tuple[int, ...], main_grad: bool
) -> torch.Tensor | None:
    """Return a parameter in fp32, or raise if it does not fit x; gamma may be None."""
    if tensor is None and name == "gamma":
        return None
    if tensor is None or tensor.dtype != torch.float32 or tensor.shape != shape or tensor.device != x.device:
        checks.fits(op, x, name, tensor, shape, DTYPES)
    return tensor if tensor is None else wide(f"{op}: {name}", tensor, main_grad)
