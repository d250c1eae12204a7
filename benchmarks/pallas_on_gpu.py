"""Try kernels of Pallas on this machine's NVIDIA GPU: lowered by Triton, compared with the equations, timed.

It needs JAX for GPUs and nothing else of the project's environments. Each kernel keeps to what Pallas lowers to Triton:
blocks of powers of two, references that are indexed, masked loads, no scratch. ``--lower`` only lowers the kernels,
which works without a GPU.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

COLUMNS = 1024  # of a block, a power of two
LIMITS = {jnp.float32: 1e-5, jnp.bfloat16: 1e-2}


def mhc_post(x: jax.Array, y: jax.Array, h_post: jax.Array, h_res: jax.Array) -> jax.Array:
    """Return ``h_res @ x + h_post ⊗ y``: a program has a block of the columns of one token."""
    tokens, streams, hidden = x.shape

    def kernel(x_ref: Any, y_ref: Any, post_ref: Any, res_ref: Any, out_ref: Any) -> None:
        token, at = pl.program_id(0), pl.program_id(1) * COLUMNS
        there = at + jnp.arange(COLUMNS) < hidden
        columns = pl.ds(at, COLUMNS)
        row = plgpu.load(y_ref.at[token, columns], mask=there, other=0.0).astype(jnp.float32)
        for i in range(streams):
            total = post_ref[token, i] * row
            for j in range(streams):
                stream = plgpu.load(x_ref.at[token, j, columns], mask=there, other=0.0)
                total += res_ref[token, i, j] * stream.astype(jnp.float32)
            plgpu.store(out_ref.at[token, i, columns], total.astype(out_ref.dtype), mask=there)

    return _launch(kernel, (tokens, pl.cdiv(hidden, COLUMNS)), x, x, y, h_post, h_res)


def expand(x: jax.Array, streams: int) -> jax.Array:
    """Return ``x`` copied to every stream: a program has a block of the columns of one token."""
    tokens, hidden = x.shape

    def kernel(x_ref: Any, out_ref: Any) -> None:
        token, at = pl.program_id(0), pl.program_id(1) * COLUMNS
        there = at + jnp.arange(COLUMNS) < hidden
        row = plgpu.load(x_ref.at[token, pl.ds(at, COLUMNS)], mask=there, other=0.0)
        for i in range(streams):
            plgpu.store(out_ref.at[token, i, pl.ds(at, COLUMNS)], row, mask=there)

    like = jax.ShapeDtypeStruct((tokens, streams, hidden), x.dtype)
    return _launch(kernel, (tokens, pl.cdiv(hidden, COLUMNS)), like, x)


def _launch(kernel: Callable[..., None], grid: tuple[int, int], like: Any, *operands: jax.Array) -> jax.Array:
    parameters = plgpu.CompilerParams(num_warps=4)
    shape = jax.ShapeDtypeStruct(like.shape, like.dtype)
    return pl.pallas_call(kernel, grid=grid, out_shape=shape, compiler_params=parameters)(*operands)


def cases(tokens: int, hidden: int, dtype: Any) -> list[tuple[str, Callable[..., Any], Callable[..., Any], list[Any]]]:
    """Return for each kernel its name, itself, its equation in float64 by NumPy, and its inputs."""
    draw = np.random.default_rng(0).standard_normal
    x, y = draw((tokens, 4, hidden)), draw((tokens, hidden))
    post, res = draw((tokens, 4)), draw((tokens, 4, 4))
    narrow = [jnp.asarray(value, dtype) for value in (x, y)]
    wide = [jnp.asarray(value, jnp.float32) for value in (post, res)]
    return [
        ("mhc_post", mhc_post, lambda x, y, post, res: res @ x + post[:, :, None] * y[:, None, :], [*narrow, *wide]),
        ("expand", functools.partial(expand, streams=4), lambda y: np.repeat(y[:, None, :], 4, axis=1), [narrow[1]]),
    ]


def main(arguments: Sequence[str]) -> int:
    """Lower or run every kernel, and return 1 if one is outside its limit."""
    parser = argparse.ArgumentParser(description="Try kernels of Pallas on NVIDIA, lowered by Triton.")
    parser.add_argument("--lower", action="store_true", help="lower them only, which needs no GPU")
    options = parser.parse_args(arguments)
    worst = 0
    for dtype, limit in LIMITS.items():
        for tokens, hidden in ((7, 200),) if options.lower else ((7, 200), (4096, 2560)):
            for name, kernel, equation, inputs in cases(tokens, hidden, dtype):
                label = f"{name} {tokens}x{hidden} {jnp.dtype(dtype).name}"
                if options.lower:
                    text = jax.jit(kernel).trace(*inputs).lower(lowering_platforms=("cuda",)).as_text()
                    sys.stdout.write(f"{label}: lowered, {len(text)} characters\n")
                    worst = max(worst, "xla.gpu.triton" not in text)
                    continue
                compiled = jax.jit(kernel)
                result = np.asarray(jax.block_until_ready(compiled(*inputs)), np.float64)
                golden = equation(*(np.asarray(value, np.float64) for value in inputs))
                error = np.abs(result - golden).max() / max(1.0, np.abs(golden).max())
                began = time.perf_counter()
                for _ in range(20):
                    last = compiled(*inputs)
                jax.block_until_ready(last)
                micros = (time.perf_counter() - began) / 20 * 1e6
                sys.stdout.write(
                    f"{label}: error {error:.2g} (limit {limit:.0e}), {micros:.0f} µs on {jax.devices()[0]}\n"
                )
                worst = max(worst, not error <= limit)
    return int(worst)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
