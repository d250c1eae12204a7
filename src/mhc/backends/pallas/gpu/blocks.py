"""Blocks of tensors in what Pallas lowers to Triton: arrays of powers of two, masked loads and stores, products.

A tensor stays in the GPU's memory whole, and a program reads its part by arrays of indices, one for each dimension.
What a mask leaves out is read as 0 and is not written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu


def launch(
    kernel: Callable[..., None],
    grid: tuple[int, ...],
    outputs: Sequence[jax.ShapeDtypeStruct],
    operands: Sequence[jax.Array],
    *,
    warps: int = 4,
    interpreted: bool = False,
) -> Any:
    """Run a kernel on a grid of programs and return its outputs; interpreted, on the CPU."""
    return pl.pallas_call(
        kernel,
        grid=grid,
        out_shape=tuple(outputs),
        interpret=interpreted,
        compiler_params=plgpu.CompilerParams(num_warps=warps, num_stages=2),
    )(*operands)


def struct(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Return the description of an output."""
    return jax.ShapeDtypeStruct(shape, dtype)


def power_of_two(count: int, least: int = 1) -> int:
    """Return the smallest power of two that is neither below ``count`` nor below ``least``."""
    return max(least, 1 << (count - 1).bit_length())


def load(ref: Any, indices: tuple[Any, ...], mask: Any) -> jax.Array:
    """Return the elements at ``indices``, which are arrays or numbers, in fp32; 0 where ``mask`` is false."""
    return plgpu.load(ref.at[indices], mask=mask, other=0.0).astype(jnp.float32)


def store(ref: Any, indices: tuple[Any, ...], values: jax.Array, mask: Any) -> None:
    """Write values in the dtype of ``ref``, rounded, where ``mask`` is true."""
    plgpu.store(ref.at[indices], values.astype(ref.dtype), mask=mask)


def product(narrow: str | None, a: jax.Array, b: jax.Array, axis_of_a: int, axis_of_b: int) -> jax.Array:
    """Return the product of two matrices over an axis of each, as exact as products and sums of fp32.

    ``narrow`` says which operand, ``"a"`` or ``"b"``, has values of bf16, or is None. The other one is then split into
    three parts in bf16, whose products with it are exact on tensor cores.
    """
    dimensions = (((axis_of_a,), (axis_of_b,)), ((), ()))

    def dot(p: jax.Array, q: jax.Array, precision: jax.lax.Precision | None = None) -> jax.Array:
        return jax.lax.dot_general(p, q, dimensions, precision=precision, preferred_element_type=jnp.float32)

    if narrow is None:
        return dot(a, b, jax.lax.Precision.HIGHEST)
    parts_of_a = [a.astype(jnp.bfloat16)] if narrow == "a" else _parts(a)
    parts_of_b = [b.astype(jnp.bfloat16)] if narrow == "b" else _parts(b)
    products = [dot(p, q) for p in parts_of_a for q in parts_of_b]
    return (products[2] + products[1]) + products[0]  # the smallest first


def sigmoid(z: jax.Array) -> jax.Array:
    """Return 1 / (1 + exp(-z)); an exponential that overflows gives 0."""
    return 1.0 / (1.0 + jnp.exp(-z))


def column(matrix: jax.Array, at: jax.Array, number: int) -> jax.Array:
    """Return a column of a matrix as a vector; ``at`` numbers the columns. A value has no slices in Triton."""
    return jnp.sum(jnp.where((at == number)[None, :], matrix, 0.0), axis=1)


def _parts(values: jax.Array) -> list[jax.Array]:
    """Return three arrays of bf16 whose sum is ``values``, up to the last bit of fp32."""
    high = values.astype(jnp.bfloat16)
    rest = values - high.astype(jnp.float32)
    middle = rest.astype(jnp.bfloat16)
    return [high, middle, (rest - middle.astype(jnp.float32)).astype(jnp.bfloat16)]
