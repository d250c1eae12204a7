"""``mhc_pre`` in Triton: launched on the GPU that holds the inputs, or compiled ahead of time for one that is absent.

The host side, ``mhc_head``'s too; :mod:`mhc.backends.triton.kernel` is the device code.
"""

from __future__ import annotations

import functools
import math

import triton
from triton.backends.compiler import GPUTarget

from mhc.backends.triton.kernel import mhc_pre_kernel
from mhc.backends.triton.launch import POINTERS, Config, Launch, Source, options, token_grid
from mhc.backends.triton.operator import Operator
from mhc.ops.mhc_head import MhcHeadInputs, MhcHeadOutputs, MhcHeadSpec
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec


@functools.cache
def config(spec: MhcPreSpec | MhcHeadSpec, target: GPUTarget | None) -> Config:
    """Decide the tiles for ``spec`` on ``target``, or in the interpreter where that is None.

    The number of tokens has no say, so that one kernel serves every batch and a token's sums are taken in one order
    whatever batch it comes in.
    """
    mixes = spec.mixes
    if target is None:
        # Each operation of the interpreter costs the same for a tile of any size: few large ones.
        tokens, vector, width, hidden, compiler = 512, 4, 1024, 1024, {}
    else:
        # A thread keeps, of every token of its block, some of x and a partial sum of every mix: up to 128 registers.
        tokens = next(tokens for tokens in (16, 8, 4, 2, 1) if tokens * (mixes + 4) <= 128 or tokens == 1)
        # As many neighbours as one load of 16 bytes brings of phi, in rows that begin on a multiple of as many;
        # fewer of them for many mixes, as compilers put all the loads of phi before the sums, in registers too.
        vector = math.gcd(spec.width, 4 if mixes <= 48 else 2)
        warps = 4
        threads = warps * target.warp_size
        width, hidden = threads * vector, threads * 16 // tokens
        compiler = options(warps)
        if target.backend == "cuda" and target.arch >= 100:
            # Left to itself, ptxas rather spills a few there than go above 168.
            compiler["maxnreg"] = 255
    constants = {
        "STREAMS": spec.streams,
        "HIDDEN": spec.hidden,
        "MIXES": mixes,
        "NORM_EPS": spec.norm_eps,
        "PRE_EPS": spec.pre_eps,
        "BLOCK_TOKENS": tokens,
        "BLOCK_WIDTH": width,
        "BLOCK_HIDDEN": max(vector, min(hidden, triton.next_power_of_2(spec.hidden))),
        "VECTOR": vector,
    }
    return Config(constants, compiler)


def _launches(inputs: MhcPreInputs | MhcHeadInputs, out: MhcPreOutputs | MhcHeadOutputs, tiles: Config) -> list[Launch]:
    tokens = inputs.x.shape[0]
    outputs = (*out, None, None)[:3]  # mhc_head has the first alone
    return [Launch(mhc_pre_kernel, tiles, token_grid(tokens, tiles), (*inputs[:5], *outputs, tokens))]


def _sources(spec: MhcPreSpec | MhcHeadSpec, tiles: Config) -> list[Source]:
    x, wide = POINTERS[spec.dtype], "*fp32"
    coefficients = (wide, wide) if isinstance(spec, MhcPreSpec) else (None, None)
    types = (x, wide, wide, wide, wide if spec.gamma else None, x, *coefficients, "i32")
    return [Source(mhc_pre_kernel, tiles, types)]


_OPERATOR = Operator(mhc_pre_kernel, config, _launches, _sources)
run, compile = _OPERATOR.run, _OPERATOR.compile
