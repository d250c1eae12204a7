"""Blocks: the part of a tensor that a kernel has in a TPU's vector memory (VMEM) at a time, and sums over blocks.

Tensors are handed over as matrices: a row for each token, and the streams of a token side by side in its columns. The
last block of tokens may reach beyond the last token: what is read there is arbitrary, and what is written there is
dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

# Of VMEM a kernel may take this much. v5e and v6e have 128 MiB; v5p has 64 MiB, and a core of TPU 7x too.
VMEM_BYTES = 56 << 20

# Of a block; bf16 has 16 rows in a tile. Powers of two are no multiples of 48: with them a last block is not full.
_MOST_TOKENS, _LEAST_TOKENS = 48, 16
_BLOCK_BYTES = 8 << 20  # of all blocks of tokens together
_STAGE = 16  # blocks that are summed before their sum joins the others'


def tokens_of_block(tokens: int, columns: int) -> int:
    """Return the tokens of a block; ``columns`` is the number of elements that a token has in all tensors."""
    most = min(_MOST_TOKENS, _BLOCK_BYTES // (8 * columns) // _LEAST_TOKENS * _LEAST_TOKENS)
    return min(tokens, max(_LEAST_TOKENS, most))


def vmem_bytes(columns: int, whole: int) -> int:
    """Return the VMEM of a kernel for a block of tokens and ``whole`` elements that stay; each is there twice."""
    return 8 * (_most_tokens(columns) * columns + whole)


def too_large(needed: int) -> str | None:
    """Return why a kernel that needs so many bytes of VMEM does not run, or None where it does."""
    if needed > VMEM_BYTES:
        return f"a block needs {needed >> 20} MiB of VMEM; the pallas backend takes up to {VMEM_BYTES >> 20} MiB"
    return None


def rows(block: int, columns: int) -> pl.BlockSpec:
    """Return the block of a matrix that has a row for each token."""
    return pl.BlockSpec((block, columns), lambda i: (i, 0))


def kept(*shape: int) -> pl.BlockSpec:
    """Return the block of a tensor that every step has whole."""
    return pl.BlockSpec(shape, lambda *_: (0,) * len(shape))


def scalars() -> pl.BlockSpec:
    """Return the block of a few numbers that are read one by one."""
    return pl.BlockSpec(memory_space=pltpu.SMEM)


def struct(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Return the description of an output."""
    return jax.ShapeDtypeStruct(shape, dtype)


def launch(
    kernel: Callable[..., None],
    operands: Sequence[jax.Array],
    *,
    interpreted: bool,
    semantics: Sequence[str],
    out_shape: Any,
    **options: Any,
) -> Any:
    """Run a kernel on a TPU, or in the interpreter; ``semantics`` says which axes of the grid are in any order.

    A TPU has no loads of fp16: XLA widens such operands before the kernel, and rounds such outputs after it.
    """
    outputs, structure = jax.tree.flatten(out_shape)
    call = pl.pallas_call(
        kernel,
        out_shape=[struct(*output.shape, dtype=_widened(output.dtype)) for output in outputs],
        interpret=pltpu.InterpretParams() if interpreted else False,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=tuple(semantics),  # type: ignore[arg-type]
            vmem_limit_bytes=VMEM_BYTES,
        ),
        **options,
    )
    results = call(*(operand.astype(_widened(operand.dtype)) for operand in operands))
    rounded = [result.astype(output.dtype) for result, output in zip(results, outputs, strict=True)]
    return jax.tree.unflatten(structure, rounded)


def add_up(step: Any, steps: int, total: Any, stage: Any, value: jax.Array) -> None:
    """Add a block's ``value`` to ``total``: ``stage`` collects a few blocks first, so that no chain is long."""

    @pl.when(step == 0)
    def _() -> None:
        total[...] = jnp.zeros_like(total)
        stage[...] = jnp.zeros_like(stage)

    stage[...] += value

    @pl.when((step % _STAGE == _STAGE - 1) | (step == steps - 1))
    def _() -> None:
        total[...] += stage[...]
        stage[...] = jnp.zeros_like(stage)


def is_token(step: Any, block: int, tokens: int) -> jax.Array:
    """Return, as a column, whether each row of a block is a token, and not beyond the last one."""
    return step * block + jax.lax.broadcasted_iota(jnp.int32, (block, 1), 0) < tokens


def product(a: jax.Array, b: jax.Array, axis_of_a: int, axis_of_b: int) -> jax.Array:
    """Return the product of two matrices over an axis of each, as exact as products and sums of fp32."""
    return jax.lax.dot_general(
        a,
        b,
        (((axis_of_a,), (axis_of_b,)), ((), ())),
        precision=jax.lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
    )


def sigmoid(z: jax.Array) -> jax.Array:
    """Return 1 / (1 + exp(-z)); an exponential that overflows gives 0."""
    return 1.0 / (1.0 + jnp.exp(-z))


def _widened(dtype: Any) -> Any:
    return jnp.float32 if dtype == jnp.float16 else dtype


def _most_tokens(columns: int) -> int:
    return tokens_of_block(_MOST_TOKENS, columns)
