"""Gradient of ``sinkhorn`` in Triton: back through every iteration."""

from __future__ import annotations

import functools

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from mhc.backends import Artifact, stage
from mhc.backends.triton import sinkhorn
from mhc.backends.triton.ahead import gpu_target
from mhc.backends.triton.launch import Config, Launch, Source, active_target, compile_sources, launch
from mhc.backends.triton.sinkhorn import exponentials, iterate, matrices, quotients, totals
from mhc.ops.sinkhorn import SinkhornBackwardInputs, SinkhornGrads, SinkhornSpec


@triton.jit(do_not_specialize=["tokens"])
def sinkhorn_backward_kernel(
    logits,
    grad_matrix,
    grad_logits,
    tokens,
    STREAMS: tl.constexpr,
    PADDED: tl.constexpr,
    ITERATIONS: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr,
    KEPT: tl.constexpr,
):
    """One program computes ``BLOCK_TOKENS`` matrices, on a GPU in one warp.

    Of a division M' = M / s the way back needs M' and s: the gradient of M is (g - Σ g · M') / s, and M is M' · s. The
    sums of ``KEPT`` iterations are kept, in registers; before those, the iterations are run again from the start.
    """
    places, inside, real = matrices(tokens, STREAMS, PADDED, BLOCK_TOKENS)
    first = exponentials(tl.load(logits + places, mask=real, other=0.0), inside)
    grad = tl.where(inside, tl.load(grad_matrix + places, mask=real, other=0.0), 0.0)
    for done in range(KEPT, ITERATIONS + 1, KEPT):
        matrix = first
        for _ in range(ITERATIONS - done):
            matrix = iterate(matrix, STREAMS, PADDED, EPS)
        sums = ()
        for step in tl.static_range(2 * KEPT):
            divisors = totals(matrix, 2 - step % 2, STREAMS, PADDED, EPS)
            matrix = quotients(matrix, divisors)
            sums = sums + (divisors,)
        for back in tl.static_range(2 * KEPT):
            # The last of a pair was a division by columns.
            along = tl.sum(grad * matrix, axis=1 + back % 2, keep_dims=True)
            grad = quotients(grad - along, sums[2 * KEPT - 1 - back])
            matrix *= sums[2 * KEPT - 1 - back]
    tl.store(grad_logits + places, grad * first, mask=real & inside)


@functools.cache
def config(spec: SinkhornSpec, target: GPUTarget | None) -> Config:
    """As the forward's; and how many iterations at once to keep the sums of, a divisor of all."""
    constants, compiler = sinkhorn.config(spec, target)
    kept = next(kept for kept in range(10, 0, -1) if spec.iterations % kept == 0)
    return Config({**constants, "KEPT": kept}, compiler)


def run(inputs: SinkhornBackwardInputs, out: SinkhornGrads, target: str | None = None) -> None:
    """Launch on the current stream of the inputs' device, or run in Triton's interpreter where that is on.

    Raises:
        RuntimeError: the inputs are on a CPU and the interpreter is off.
        ValueError: ``target`` is another architecture than the inputs' device.
    """
    spec, device, tokens = inputs.spec, inputs.logits.device, inputs.logits.shape[0]
    with active_target(sinkhorn_backward_kernel, device, target) as active:
        with stage("lower"):
            tiles = config(spec, active)
        grid = (triton.cdiv(tokens, tiles.constants["BLOCK_TOKENS"]),)
        arguments = (inputs.logits, inputs.grad_matrix, out.logits, tokens)
        launch(spec, device, Launch(sinkhorn_backward_kernel, tiles, grid, arguments))


@functools.cache
def compile(spec: SinkhornSpec, target: str) -> Artifact:
    """Compile for ``target`` (``sm_90``, ``gfx942``) as :func:`run` would there, with no device.

    Raises:
        ValueError: Triton compiles for no such target, or the kernel needs more shared memory than it has.
    """
    with stage("lower"):
        tiles = config(spec, gpu_target(target))
    return compile_sources(target, Source(sinkhorn_backward_kernel, tiles, ("*fp32", "*fp32", "*fp32", "i32")))
