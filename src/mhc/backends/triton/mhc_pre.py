"""``mhc_pre`` in Triton: launched on the GPU that holds the inputs, or compiled ahead of time for one that is absent.

The host side; :mod:`mhc.backends.triton.kernel` is the device code.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime.jit import JITFunction

from mhc.backends import Artifact, stage
from mhc.backends.triton.ahead import compile_ahead, gpu_target, target_name
from mhc.backends.triton.kernel import mhc_pre_kernel
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec

_POINTERS = {torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32"}


class Config(NamedTuple):
    """What a spec becomes on a target: the kernel's constants, and the options of the compiler."""

    constants: dict[str, Any]
    options: dict[str, Any]


@functools.cache
def config(spec: MhcPreSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None.

    The number of tokens has no say, so that one kernel serves every batch and a token's sums are taken in one order
    whatever batch it comes in.
    """
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, vector, width, hidden, options = 128, 4, 1024, 1024, {}
    else:
        # A thread keeps a partial sum of every mix of every token of its block: up to 96 registers.
        tokens = next(tokens for tokens in (16, 8, 4, 2, 1) if tokens * spec.mixes <= 96 or tokens == 1)
        # As many neighbours as one load of 16 bytes brings of phi, in rows that begin on a multiple of as many;
        # fewer of them for many mixes, as compilers put all the loads of phi before the sums, in registers too.
        vector = math.gcd(spec.width, 4 if spec.mixes <= 48 else 2)
        warps = 4
        threads = warps * target.warp_size
        width, hidden = threads * vector, threads * 16 // tokens
        # enable_fp_fusion only contracts a·b + c; named, because its default is not the same in every version.
        options = {"num_warps": warps, "enable_fp_fusion": True}
        if target.backend == "cuda" and target.arch >= 100:
            # Left to itself, ptxas rather spills a few there than go above 168.
            options["maxnreg"] = 255
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "NORM_EPS": spec.norm_eps,
        "PRE_EPS": spec.pre_eps,
        "BLOCK_TOKENS": tokens,
        "BLOCK_WIDTH": width,
        "BLOCK_HIDDEN": min(hidden, triton.next_power_of_2(spec.hidden)),
        "VECTOR": vector,
    }
    return Config(constants, options)


_compiled: set[tuple[MhcPreSpec, int | None]] = set()


def run(inputs: MhcPreInputs, out: MhcPreOutputs, target: str | None = None) -> None:
    """Launch on the current stream of the inputs' device, or run in Triton's interpreter where that is on.

    Triton compiles for the device it launches on, so ``target`` may only name that one.

    Raises:
        RuntimeError: the inputs are on a CPU and the interpreter is off.
        ValueError: ``target`` is another architecture than the inputs' device.
    """
    spec, device = inputs.spec, inputs.x.device
    interpreted = not isinstance(mhc_pre_kernel, JITFunction)
    if device.type == "cpu" and not interpreted:
        raise RuntimeError(
            "Triton has no CPU device; TRITON_INTERPRET=1, set before triton is imported, emulates one (exact in fp32 "
            "only: its cast to bf16 truncates)"
        )
    with torch.cuda.device(device if device.type == "cuda" else -1):
        active = None if interpreted else triton.runtime.driver.active.get_current_target()
        if target is not None and (active is None or target != target_name(active)):
            name = "the interpreter" if active is None else target_name(active)
            raise ValueError(f"triton: target is {target}, and the inputs are on {name}; for others there is compile()")
        with stage("lower"):
            constants, options = config(spec, active)
        tokens = inputs.x.shape[0]
        arguments = (*inputs[:5], *out, tokens)
        grid = (triton.cdiv(tokens, constants["BLOCK_TOKENS"]),)
        # The launch would compile too; done apart once, so that a failure says which of the two it was.
        if not interpreted and (spec, device.index) not in _compiled:
            with stage("compile"):
                mhc_pre_kernel.warmup(*arguments, grid=grid, **constants, **options)
            _compiled.add((spec, device.index))
        with stage("launch"):
            mhc_pre_kernel[grid](*arguments, **constants, **options)


@functools.cache
def compile(spec: MhcPreSpec, target: str) -> Artifact:
    """Compile for ``target`` (``sm_90``, ``gfx942``) as :func:`run` would there, with no device.

    Raises:
        ValueError: Triton compiles for no such target, or the kernel needs more shared memory than it has.
    """
    with stage("lower"):
        gpu = gpu_target(target)
        constants, options = config(spec, gpu)
        x = _POINTERS[spec.dtype]
        signature = {
            "x": x,
            "phi": "*fp32",
            "alpha": "*fp32",
            "bias": "*fp32",
            "gamma": "*fp32" if spec.gamma else "constexpr",
            "h_in": x,
            "h_post": "*fp32",
            "h_res": "*fp32",
            "tokens": "i32",
            **dict.fromkeys(constants, "constexpr"),
        }
        if not spec.gamma:
            constants = {**constants, "gamma": None}
    return compile_ahead(mhc_pre_kernel, signature, constants, options, target, gpu)
