"""The functions of the single-pass form; :mod:`mhc.functional` has them too, and says what holds for all."""

from __future__ import annotations

from typing import NamedTuple

import torch

from mhc import checks
from mhc.arguments import backend_of, read_tensors
from mhc.library import MHC_COEFFICIENTS, MHC_READ, MHC_SINGLE_PASS, MHC_SINGLE_PASS_FP8, call
from mhc.ops.mhc_single_pass_fp8 import GROUP
from mhc.parameters import DTYPES


class MhcCoefficients(NamedTuple):
    """``h_pre`` and ``h_post`` [..., n], ``logits`` [..., c], all fp32: c is what phi has beyond 2n rows."""

    h_pre: torch.Tensor
    h_post: torch.Tensor
    logits: torch.Tensor


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
    return call(MHC_READ, (x, pre), (), backend_of(backend, x, "mhc_read"))[0]


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
    tensors = read_tensors("mhc_coefficients", x, (phi, alpha, bias, gamma), precision, main_grad, any_mixes=True)
    options = (norm_eps, pre_eps, post_scale, precision)
    return MhcCoefficients(*call(MHC_COEFFICIENTS, tensors, options, backend_of(backend, x, "mhc_coefficients")))


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
    h_in, *coefficients, out = call(MHC_SINGLE_PASS, tensors, options, backend_of(backend, x, op))
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
    checks.in_fp8(op, "mhc_single_pass", x.shape[-1], GROUP, tensors)
    options = (norm_eps, pre_eps, post_scale, precision, power_of_two_scales)
    h_in, scale, *coefficients, out = call(MHC_SINGLE_PASS_FP8, tensors, options, backend_of(backend, x, op))
    return out, h_in, scale, MhcCoefficients(*coefficients)


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
    _, *shared = read_tensors(op, x, parameters, precision, main_grad, any_mixes=True, weight=(norm_weight,))
    return (*of_tokens, *shared)
