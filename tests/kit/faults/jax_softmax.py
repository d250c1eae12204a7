"""Softmax in JAX: one right, and faults of kinds that kernels had. Each takes x, and returns y."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lax.lax import _convert_element_type


@jax.jit
def _softmax(x):
    shifted = jnp.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def good(x):
    return _softmax(x)


@functools.partial(jax.jit, donate_argnums=0)
def _in_place(x):
    return _softmax(x)


def donates(x):
    """Give the memory of the input away."""
    y = _in_place(x)
    if not isinstance(x, jax.core.Tracer):
        x.delete()
    return y


def masks_wrongly(x):
    """Compute blocks of eight rows, and forget the last rows of two."""
    y = _softmax(x)
    return y.at[-1:].set(0) if len(x) % 8 == 2 else y


def widens(x):
    jax.config.update("jax_enable_x64", not jax.config.jax_enable_x64)
    return _softmax(x)


def narrow_inside(x):
    return _softmax(x.astype(jnp.bfloat16)).astype(x.dtype)


def hides_nan(x):
    return _softmax(jnp.nan_to_num(x))


def without_shift(x):
    """Overflow where a row is large."""
    e = jnp.exp(x)
    return e / e.sum(-1, keepdims=True)


_calls = itertools.count(1)


def every_fifth(x):
    y = _softmax(x)
    return y * 1.001 if next(_calls) % 5 == 0 else y


@jax.custom_vjp
def _wrong_gradient(x):
    return _softmax(x)


def _forward(x):
    y = _softmax(x)
    return y, y


def _backward(y, grad):
    return (y * (grad - grad.mean(-1, keepdims=True)),)


_wrong_gradient.defvjp(_forward, _backward)


def other_gradient(x):
    return _wrong_gradient(x)


_first = {}


def constant_folded(x):
    """Trace the values of the first call into the compiled code."""
    if isinstance(x, jax.core.Tracer):
        return _softmax(x)
    if x.shape not in _first:
        kept = _softmax(x)
        _first[x.shape] = jax.jit(lambda: kept)
    return _first[x.shape]()


def gives_an_array_of_numpy(x):
    y = _softmax(x)
    return y if isinstance(y, jax.core.Tracer) else np.asarray(y)


def weakly_typed(x):
    """Give the array as a number of Python, whose dtype is what it meets."""
    return _convert_element_type(_softmax(x), weak_type=True)
