"""``mhc_pre`` as one tirx script for LLVM: blocked over tokens and rows of phi, vectorised over hidden."""

from __future__ import annotations

import functools
import math
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch

# TVM reads both when it starts its threads. Left alone it takes half of the cores, and pins the calling thread (with it,
# later threads of PyTorch) to as many cores as it took.
os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
os.environ.setdefault("TVM_BIND_THREADS", "0")

import tvm  # noqa: E402
from tvm.script import tirx as T  # noqa: E402
from tvm.target import Target  # noqa: E402
from tvm.target import codegen as llvm  # noqa: E402

from mhc.backends import Artifact, stage  # noqa: E402
from mhc.ops.mhc_pre import MhcPreInputs, MhcPreOutputs, MhcPreSpec  # noqa: E402

# Elements per token that are held in fp32 at a time: with four tokens, and four rows of phi, they fit in half of a
# first-level cache of 32 KiB and more.
_CHUNK = 512


@dataclass(frozen=True)
class Tile:
    """How the loops are blocked: ``tokens`` x ``rows`` accumulators of ``lanes`` floats stay in registers."""

    tokens: int
    rows: int
    lanes: int


def _tile(spec: MhcPreSpec, target: Target) -> Tile:
    """The block with the most multiplications per load that the target's vector registers hold."""
    if llvm.llvm_cpu_has_features("avx512f", target):
        lanes, registers = 16, 32
    elif llvm.llvm_cpu_has_features("avx", target):
        lanes, registers = 8, 16
    else:
        lanes, registers = 4, 16
    best = max(
        (
            (tokens * rows / (tokens + rows), tokens, rows)
            for rows in range(1, registers)
            if spec.mixes % rows == 0
            for tokens in (1, 2, 3, 4, 6)
            if tokens * rows + min(tokens, rows) < registers and tokens * rows * lanes * 4 <= 1024
        )
    )
    return Tile(best[1], best[2], min(lanes, 1 << (spec.width.bit_length() - 1)))


def _script(spec: MhcPreSpec, tile: Tile) -> tvm.IRModule:
    f32 = "float32"
    dtype = str(spec.dtype).removeprefix("torch.")
    align = spec.dtype.itemsize
    n, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    TM, TO, VL = tile.tokens, tile.rows, tile.lanes
    vectors = -(-width // VL)
    KV = -(-vectors // -(-vectors * VL // _CHUNK))
    chunks = -(-vectors // KV)
    ragged = width % VL != 0
    HL = min(VL, 1 << (hidden.bit_length() - 1))
    halvings = VL.bit_length() - 1

    @T.prim_func
    def main(x_ptr: T.handle, phi_ptr: T.handle, alpha_ptr: T.handle, bias_ptr: T.handle, gamma_ptr: T.handle,
             h_in_ptr: T.handle, h_post_ptr: T.handle, h_res_ptr: T.handle):
        T.func_attr({"global_symbol": "mhc_pre", "tirx.noalias": True})
        tokens = T.int64()
        x = T.match_buffer(x_ptr, (tokens, width), dtype, align=align)
        phi = T.match_buffer(phi_ptr, (mixes, width), f32, align=4)
        alpha = T.match_buffer(alpha_ptr, (3,), f32, align=4)
        bias = T.match_buffer(bias_ptr, (mixes,), f32, align=4)
        if spec.gamma:
            gamma = T.match_buffer(gamma_ptr, (width,), f32, align=4)
        h_in = T.match_buffer(h_in_ptr, (tokens, hidden), dtype, align=align)
        h_post = T.match_buffer(h_post_ptr, (tokens, n), f32, align=4)
        h_res = T.match_buffer(h_res_ptr, (tokens, n * n), f32, align=4)
        for block in T.parallel(T.truncdiv(tokens + (TM - 1), T.int64(TM))):
            v = T.alloc_buffer((TM, KV * VL), f32)
            total = T.alloc_buffer((TM, mixes, VL), f32)
            square = T.alloc_buffer((TM, VL), f32, scope="local")
            acc = T.alloc_buffer((TM, TO, VL), f32, scope="local")
            pre = T.alloc_buffer((TM, n), f32, scope="local")
            mix = T.alloc_buffer((mixes,), f32, scope="local")
            r = T.alloc_buffer((1,), f32, scope="local")
            part = T.alloc_buffer((HL,), f32, scope="local")
            for t in range(TM):
                for l in T.vectorized(VL):
                    square[t, l] = T.float32(0)
            for t, o in T.grid(TM, mixes):
                for l in T.vectorized(VL):
                    total[t, o, l] = T.float32(0)
            for c in range(chunks):
                for t in range(TM):
                    for k in range(T.min(KV, vectors - c * KV)):
                        for l in T.vectorized(VL):
                            v[t, k * VL + l] = T.Cast(f32, x[T.min(block * TM + t, tokens - 1), T.min((c * KV + k) * VL, width - VL) + l])
                        if ragged:
                            for l in T.vectorized(VL):
                                v[t, k * VL + l] = T.Select(T.min((c * KV + k) * VL, width - VL) + l >= (c * KV + k) * VL, v[t, k * VL + l], T.float32(0))
                        for l in T.vectorized(VL):
                            square[t, l] = square[t, l] + v[t, k * VL + l] * v[t, k * VL + l]
                        if spec.gamma:
                            for l in T.vectorized(VL):
                                v[t, k * VL + l] = v[t, k * VL + l] * gamma[T.min((c * KV + k) * VL, width - VL) + l]
                for o in range(mixes // TO):
                    for t in T.unroll(TM):
                        for p in T.unroll(TO):
                            for l in T.vectorized(VL):
                                acc[t, p, l] = total[t, o * TO + p, l]
                    for k in range(T.min(KV, vectors - c * KV)):
                        for t in T.unroll(TM):
                            for p in T.unroll(TO):
                                for l in T.vectorized(VL):
                                    acc[t, p, l] = acc[t, p, l] + v[t, k * VL + l] * phi[o * TO + p, T.min((c * KV + k) * VL, width - VL) + l]
                    for t in T.unroll(TM):
                        for p in T.unroll(TO):
                            for l in T.vectorized(VL):
                                total[t, o * TO + p, l] = acc[t, p, l]
            for t in range(TM):
                if block * TM + t < tokens:
                    for h in T.unroll(halvings):
                        for l in range(VL >> (h + 1)):
                            square[t, l] = square[t, l] + square[t, l + (VL >> (h + 1))]
                    r[0] = T.float32(1) / T.sqrt(square[t, 0] / T.float32(width) + T.float32(spec.norm_eps))
                    for o in range(mixes):
                        mix[o] = T.float32(0)
                        for l in T.unroll(VL):
                            mix[o] = mix[o] + total[t, o, l]
                        mix[o] = mix[o] * r[0]
                    for i in range(n):
                        pre[t, i] = T.sigmoid(alpha[0] * mix[i] + bias[i]) + T.float32(spec.pre_eps)
                        h_post[block * TM + t, i] = T.float32(2) * T.sigmoid(alpha[1] * mix[n + i] + bias[n + i])
                    for i in range(n * n):
                        h_res[block * TM + t, i] = alpha[2] * mix[2 * n + i] + bias[2 * n + i]
                    for d in range(-(-hidden // HL)):
                        for l in T.vectorized(HL):
                            part[l] = T.float32(0)
                        for i in T.unroll(n):
                            for l in T.vectorized(HL):
                                part[l] = part[l] + pre[t, i] * T.Cast(f32, x[block * TM + t, i * hidden + T.min(d * HL, hidden - HL) + l])
                        for l in T.vectorized(HL):
                            h_in[block * TM + t, T.min(d * HL, hidden - HL) + l] = T.Cast(dtype, part[l])

    return tvm.IRModule({"mhc_pre": main})


def _target(name):
    cpu = llvm.llvm_get_system_cpu() if name is None else name
    if not llvm.llvm_is_valid_cpu(cpu, llvm.llvm_get_system_triple()):
        raise ValueError("x")
    return Target({"kind": "llvm", "mcpu": cpu})


@functools.cache
def _executable(spec, name):
    with stage("lower"):
        target = _target(name)
        module = _script(spec, _tile(spec, target))
    with stage("compile"):
        return tvm.compile(module, target=target)


def run(inputs: MhcPreInputs, out: MhcPreOutputs, target: str | None = None) -> None:
    kernel = _executable(inputs.spec, target)["mhc_pre"]
    tokens = inputs.x.shape[0]
    with stage("launch"):
        kernel(
            inputs.x.view(tokens, -1), inputs.phi, inputs.alpha, inputs.bias,
            None if inputs.gamma is None else inputs.gamma.view(-1),
            out.h_in, out.h_post, out.h_res.view(tokens, -1),
        )
