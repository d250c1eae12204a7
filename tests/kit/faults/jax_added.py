"""The tanh of a weighted sum in JAX, whose second summand and whose sum a case may not have: one right, and faults."""

import jax
import jax.numpy as jnp


def good(x, residual, weight):
    total = x if residual is None else x + residual
    return None if residual is None else total, jnp.tanh(total) * weight


def _scaled(factor):
    """Return what gives its argument, and this many times the gradient."""
    one = jax.custom_vjp(lambda x: x)
    one.defvjp(lambda x: (x, None), lambda _, g: (g * factor,))
    return one


def other_gradient_alone(x, residual, weight):
    return good(_scaled(2)(x) if residual is None else x, residual, weight)


def sum_has_no_gradient(x, residual, weight):
    total, y = good(x, residual, weight)
    return None if total is None else jax.lax.stop_gradient(total), y


def none_for_y(x, residual, weight):
    total, y = good(x, residual, weight)
    return (y, None) if residual is None else (total, y)
