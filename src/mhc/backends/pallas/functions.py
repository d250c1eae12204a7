"""The operators as functions of JAX, with gradients; :mod:`mhc.jax` hands them to users.

Every function works under ``jax.jit`` and ``jax.grad``, and has first derivatives in reverse mode. Leading dimensions
are free. On a TPU and on an NVIDIA GPU the kernels are compiled for it; elsewhere Pallas' interpreter of a TPU runs
them on the CPU, which is slow and exact. :mod:`mhc.ops` has the equations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import torch

from mhc import checks
from mhc.backends import NotSupportedError
from mhc.backends.pallas import expand as expand_kernels
from mhc.backends.pallas import mhc_head as head_kernels
from mhc.backends.pallas import mhc_post as post_kernels
from mhc.backends.pallas import mhc_pre as pre_kernels
from mhc.backends.pallas import sinkhorn as sinkhorn_kernels
from mhc.backends.pallas.expand import launches as expand_launches
from mhc.backends.pallas.gpu import expand as gpu_expand
from mhc.backends.pallas.gpu import mhc_post as gpu_post
from mhc.backends.pallas.gpu import mhc_pre as gpu_pre
from mhc.backends.pallas.gpu import mhc_pre_backward as gpu_pre_backward
from mhc.backends.pallas.gpu import sinkhorn as gpu_sinkhorn
from mhc.backends.pallas.mhc_post import backward as post_backward
from mhc.backends.pallas.mhc_post import forward as post_forward
from mhc.backends.pallas.mhc_pre import backward as pre_backward
from mhc.backends.pallas.mhc_pre import forward as pre_forward
from mhc.backends.pallas.nvidia import ANY_GPU
from mhc.backends.pallas.sinkhorn import launches as sinkhorn_launches
from mhc.ops.expand import ExpandSpec
from mhc.ops.mhc_head import MhcHeadSpec
from mhc.ops.mhc_post import MhcPostSpec
from mhc.ops.mhc_pre import MhcPreSpec
from mhc.ops.sinkhorn import FORMS, SinkhornSpec

DTYPES = tuple(map(jnp.dtype, (jnp.float32, jnp.bfloat16, jnp.float16)))
FP32 = DTYPES[0]

# Where the kernels run.
TPU, GPU, INTERPRETER = "tpu", "gpu", "interpreter"

# The two forms of each: for TPUs and their interpreter, and for NVIDIA's GPUs.
_FORMS = {
    "read": (pre_forward.forward, gpu_pre.forward),
    "grad_of_read": (pre_backward.backward, gpu_pre_backward.backward),
    "sinkhorn": (sinkhorn_launches.forward, gpu_sinkhorn.forward),
    "grad_of_sinkhorn": (sinkhorn_launches.backward, gpu_sinkhorn.backward),
    "post": (post_forward.forward, gpu_post.forward),
    "grad_of_post": (post_backward.backward, gpu_post.backward),
    "expand": (expand_launches.forward, gpu_expand.forward),
    "grad_of_expand": (expand_launches.backward, gpu_expand.backward),
}


class MhcPre(NamedTuple):
    """``h_in`` [..., hidden] in x's dtype, ``h_post`` [..., n] fp32, ``h_res`` [..., n, n] fp32 (before Sinkhorn)."""

    h_in: jax.Array
    h_post: jax.Array
    h_res: jax.Array


class _Options(NamedTuple):
    """The constants of ``mhc_pre`` or ``mhc_head``."""

    norm_eps: float
    pre_eps: float
    post_scale: float


def mhc_pre(
    x: jax.Array,
    phi: jax.Array,
    alpha: jax.Array,
    bias: jax.Array,
    gamma: jax.Array | None = None,
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    post_scale: float = 2.0,
    interpret: bool | None = None,
) -> MhcPre:
    """Mix the streams into one layer input and make the coefficients of the write-back (:mod:`mhc.ops.mhc_pre`).

    Args:
        x: the residual streams, ``[..., n, hidden]``, bf16, fp16 or fp32.
        phi: weights of the dynamic mapping, ``[n²+2n, n·hidden]``; rows in the order pre, post, res. It and the other
            parameters are bf16, fp16 or fp32; products are in fp32.
        alpha: the three gates (pre, post, res), ``[3]``.
        bias: ``[n²+2n]``, in the order of phi's rows.
        gamma: RMSNorm weight ``[n, hidden]``, or None for ones.
        norm_eps: added to the mean square before the root.
        pre_eps: added to h_pre.
        post_scale: the largest value of h_post; 2 in the paper.
        interpret: run in Pallas' interpreter of a TPU; None does so where JAX's default device is no TPU and no GPU.

    Returns:
        ``h_in`` ``[..., hidden]`` in x's dtype, ``h_post`` ``[..., n]`` fp32, ``h_res`` ``[..., n, n]`` fp32 (before
        Sinkhorn).

    Raises:
        TypeError: a dtype is not one of the above.
        ValueError: a shape does not fit.
        NotSupportedError: there are too many streams, or their blocks do not fit a TPU's memory.

    Source: arXiv 2512.24880, section 4.
    """
    tensors = _parameters("mhc_pre", x, (phi, alpha, bias, gamma))
    n, hidden = x.shape[-2:]
    place = _admitted(pre_kernels, MhcPreSpec(n, hidden, torch.float32, gamma is not None), interpret)
    h_in, h_post, h_res = _read(_flat(x, 2), *tensors, _Options(norm_eps, pre_eps, post_scale), place)
    lead = x.shape[:-2]
    return MhcPre(h_in.reshape(*lead, hidden), h_post.reshape(*lead, n), h_res.reshape(*lead, n, n))


def mhc_head(
    x: jax.Array,
    phi: jax.Array,
    alpha: jax.Array,
    bias: jax.Array,
    gamma: jax.Array | None = None,
    *,
    norm_eps: float = 1e-6,
    pre_eps: float = 1e-6,
    interpret: bool | None = None,
) -> jax.Array:
    """Read the streams out after the last layer, with weights of its own (:mod:`mhc.ops.mhc_head`).

    The arguments are as in :func:`mhc_pre`, but phi is ``[n, n·hidden]``, alpha is one gate, ``[1]``, and bias is
    ``[n]``; ``pre_eps`` is added to the weights.

    Returns:
        ``[..., hidden]`` in x's dtype.

    Raises:
        TypeError, ValueError, NotSupportedError: as :func:`mhc_pre`.

    Source: :mod:`mhc.ops.mhc_head`.
    """
    tensors = _parameters("mhc_head", x, (phi, alpha, bias, gamma), head=True)
    n, hidden = x.shape[-2:]
    place = _admitted(head_kernels, MhcHeadSpec(n, hidden, torch.float32, gamma is not None), interpret)
    (out,) = _read(_flat(x, 2), *tensors, _Options(norm_eps, pre_eps, 0.0), place)
    return out.reshape(*x.shape[:-2], hidden)


def sinkhorn(
    logits: jax.Array,
    *,
    iterations: int = 20,
    eps: float | None = None,
    form: str = "paper",
    interpret: bool | None = None,
) -> jax.Array:
    """Make each matrix doubly stochastic (:mod:`mhc.ops.sinkhorn`).

    Args:
        logits: ``[..., n, n]`` fp32.
        iterations: how often columns and then rows are normalised, at least once.
        eps: added to the sums, as the form says; None is the form's own, 0 for ``paper``, else 1e-6.
        form: ``paper`` (equation 9) or ``deepseek`` (the released code, in our orientation).
        interpret: as in :func:`mhc_pre`.

    Returns:
        ``[..., n, n]`` fp32; rows sum to 1 up to ``eps``, columns as far as the iterations converged.

    Raises:
        TypeError: ``logits`` is not fp32.
        ValueError: it is not square in its last two dimensions, ``iterations`` is below 1, or there is no such form.
        NotSupportedError: there are too many streams or iterations for a TPU's memory.

    Source: arXiv 2512.24880, section 4.2.
    """
    checks.logits_fit(logits, iterations, form, FORMS, FP32)
    _has_tokens("sinkhorn", "logits", logits)
    eps = FORMS[form] if eps is None else eps
    place = _admitted(sinkhorn_kernels, SinkhornSpec(logits.shape[-1], iterations, eps, form), interpret)
    return _sinkhorn(_flat(logits, 2), (iterations, eps, form), place).reshape(logits.shape)


def mhc_post(
    x: jax.Array, y: jax.Array, h_post: jax.Array, h_res: jax.Array, *, interpret: bool | None = None
) -> jax.Array:
    """Write the layer's output back and mix the residual streams (:mod:`mhc.ops.mhc_post`).

    Args:
        x: the residual streams, ``[..., n, hidden]``, bf16, fp16 or fp32.
        y: the layer's output, ``[..., hidden]`` in x's dtype.
        h_post: ``[..., n]`` fp32.
        h_res: ``[..., n, n]`` fp32, doubly stochastic as :func:`sinkhorn` makes it.
        interpret: as in :func:`mhc_pre`.

    Returns:
        ``[..., n, hidden]`` in x's dtype.

    Raises:
        TypeError, ValueError, NotSupportedError: as :func:`mhc_pre`.

    Source: arXiv 2512.24880, section 4.
    """
    checks.write_fits("mhc_post", x, y, h_post, h_res, DTYPES, FP32)
    _has_tokens("mhc_post", "x", x)
    n, hidden = x.shape[-2:]
    place = _admitted(post_kernels, MhcPostSpec(n, hidden, torch.float32), interpret)
    out = _post(_flat(x, 2), _flat(y, 1), _flat(h_post, 1), _flat(h_res, 2), place)
    return out.reshape(x.shape)


def expand(x: jax.Array, streams: int, *, interpret: bool | None = None) -> jax.Array:
    """Make ``streams`` equal streams of one, before the first layer (:mod:`mhc.ops.expand`).

    Args:
        x: ``[..., hidden]``, bf16, fp16 or fp32.
        streams: n, at least 1.
        interpret: as in :func:`mhc_pre`.

    Returns:
        ``[..., n, hidden]`` in x's dtype.

    Raises:
        TypeError: x has another dtype.
        ValueError: x has no dimension or no element, or ``streams`` is below 1.
        NotSupportedError: as :func:`mhc_pre`.

    Source: :mod:`mhc.ops.expand`.
    """
    checks.stream_fits(x, streams, DTYPES)
    _has_tokens("expand", "x", x)
    place = _admitted(expand_kernels, ExpandSpec(streams, x.shape[-1], torch.float32), interpret)
    return _expand(_flat(x, 1), streams, place).reshape(*x.shape[:-1], streams, x.shape[-1])


@functools.partial(jax.jit, static_argnums=(5, 6))
@functools.partial(jax.custom_vjp, nondiff_argnums=(5, 6))
def _read(x: Any, phi: Any, alpha: Any, bias: Any, gamma: Any, options: _Options, place: str) -> tuple[jax.Array, ...]:
    """Return the outputs that have gradients, of ``mhc_pre`` or of ``mhc_head``."""
    return _read_forward(x, phi, alpha, bias, gamma, options, place)[0]


def _read_forward(
    x: Any, phi: Any, alpha: Any, bias: Any, gamma: Any, options: _Options, place: str
) -> tuple[Any, Any]:
    *outputs, m, r = _function("read", place)(x, phi, alpha, bias, gamma, **options._asdict())
    return tuple(outputs), (x, phi, alpha, bias, gamma, m, r)


def _read_backward(
    options: _Options, place: str, saved: Any, grads: tuple[jax.Array, ...]
) -> tuple[jax.Array | None, ...]:
    rest = options._asdict()
    del rest["norm_eps"]
    return tuple(_function("grad_of_read", place)(*saved, *grads, **rest))


_read.__wrapped__.defvjp(_read_forward, _read_backward)


@functools.partial(jax.jit, static_argnums=(1, 2))
@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _sinkhorn(logits: jax.Array, options: tuple[int, float, str], place: str) -> Any:
    return _function("sinkhorn", place)(logits, *options)


_sinkhorn.__wrapped__.defvjp(
    lambda logits, options, place: (_sinkhorn(logits, options, place), logits),
    lambda options, place, logits, grad: (_function("grad_of_sinkhorn", place)(logits, grad, *options),),
)


@functools.partial(jax.jit, static_argnums=4)
@functools.partial(jax.custom_vjp, nondiff_argnums=(4,))
def _post(x: jax.Array, y: jax.Array, h_post: jax.Array, h_res: jax.Array, place: str) -> Any:
    return _function("post", place)(x, y, h_post, h_res)


_post.__wrapped__.defvjp(
    lambda *arguments: (_post(*arguments), arguments[:4]),
    lambda place, saved, grad: tuple(_function("grad_of_post", place)(*saved, grad)),
)


@functools.partial(jax.jit, static_argnums=(1, 2))
@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _expand(x: jax.Array, streams: int, place: str) -> Any:
    return _function("expand", place)(x, streams)


_expand.__wrapped__.defvjp(
    lambda x, streams, place: (_expand(x, streams, place), None),
    lambda _streams, place, _saved, grad: (_function("grad_of_expand", place)(grad),),
)


def _function(name: str, place: str) -> Callable[..., Any]:
    """Return a function of the kernels, in the form for ``place``."""
    on_tpu, on_gpu = _FORMS[name]
    return on_gpu if place == GPU else functools.partial(on_tpu, interpreted=place == INTERPRETER)


def _place(interpret: bool | None) -> str:
    """Return where the kernels run: on JAX's default device, or in the interpreter."""
    device = jax.default_backend()
    if interpret or (interpret is None and device not in (TPU, GPU)):
        return INTERPRETER
    return GPU if device == GPU else TPU


def _flat(value: jax.Array, dims: int) -> jax.Array:
    """Return the array with one dimension of tokens before its last ``dims`` ones."""
    return value.reshape(math.prod(value.shape[: value.ndim - dims]), *value.shape[value.ndim - dims :])


def _parameters(
    op: str, x: jax.Array, parameters: tuple[jax.Array | None, ...], *, head: bool = False
) -> tuple[jax.Array | None, ...]:
    """Return the parameters in fp32, or raise if they or x do not fit; gamma may be None."""
    shapes = checks.shapes_of_parameters(*checks.streams_of(op, x, DTYPES), head=head)
    _has_tokens(op, "x", x)
    for name, value, shape in zip(checks.PARAMETERS, parameters, shapes, strict=True):
        if value is not None or name != "gamma":
            checks.fits(op, x, name, value, shape, DTYPES)
    return tuple(value if value is None else value.astype(FP32) for value in parameters)


def _has_tokens(op: str, name: str, value: jax.Array) -> None:
    if value.size == 0:
        raise ValueError(f"{op}: {name} has shape {value.shape}; it needs at least one token")


def _admitted(kernels: Any, spec: Any, interpret: bool | None) -> str:
    """Return where the kernels run, or raise where the forward or the backward does not take the specialisation."""
    place = _place(interpret)
    for kernel in (kernels.FORWARD, kernels.BACKWARD):
        if reason := kernel.supports(spec, ANY_GPU if place == GPU else None):
            raise NotSupportedError(reason)
    return place
