"""Right kernels in JAX."""

import jax
import jax.numpy as jnp


@jax.jit
def softmax(x):
    return jax.nn.softmax(x.astype(jnp.float32)).astype(x.dtype)


@jax.custom_vjp
def scaled(x, weight):
    return (x.astype(jnp.float32) * weight).astype(x.dtype)


def _forward(x, weight):
    return scaled(x, weight), (x, weight)


def _backward(kept, g):
    x, weight = kept
    g = g.astype(jnp.float32)
    return (g * weight).astype(x.dtype), (g * x.astype(jnp.float32)).sum(0)


scaled.defvjp(_forward, _backward)
