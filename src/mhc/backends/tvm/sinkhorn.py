"""``sinkhorn`` for LLVM's CPU targets; one compilation serves every number of tokens."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends import Artifact, stage
from mhc.backends.tvm.cpu import Kernel
from mhc.backends.tvm.vectors import registers
from mhc.ops.sinkhorn import SinkhornInputs, SinkhornOutputs, SinkhornSpec


def run(inputs: SinkhornInputs, out: SinkhornOutputs, target: str | None = None) -> None:
    """Run on the CPU, in the tensors' own memory; ``target`` is a CPU that LLVM knows, None this one.

    Raises:
        ValueError: the target is not a CPU of this architecture, or has instructions that this CPU lacks.
    """
    kernel = _KERNEL.function(inputs.spec, target)
    with stage("launch"):
        kernel(inputs.logits, out.matrix)


def compile(spec: SinkhornSpec, target: str) -> Artifact:
    """A shared library with the kernel in TVM's calling convention.

    Raises:
        ValueError: the target is not a CPU that LLVM knows for the architecture of this machine.
    """
    return _KERNEL.artifact(spec, target)


def _script(spec: SinkhornSpec, target: Target) -> tvm.tirx.PrimFunc:
    """A vector has one entry of as many tokens' matrices as it has lanes: no sum goes across lanes."""
    f32 = "float32"
    n = spec.streams
    lanes, _ = registers(target)

    @T.prim_func
    def sinkhorn(logits_: T.handle, matrix_: T.handle):
        T.func_attr({"global_symbol": "sinkhorn", "tirx.noalias": True})
        tokens = T.int64()
        logits = T.match_buffer(logits_, (tokens, n, n), f32, align=4)
        matrix = T.match_buffer(matrix_, (tokens, n, n), f32, align=4)

        # A last vector that is not full repeats the last token, and stores the same result again.
        for block in T.parallel(T.truncdiv(tokens + (lanes - 1), T.int64(lanes))):
            m = T.alloc_buffer((n, n, lanes), f32)
            line = T.alloc_buffer((lanes,), f32)
            for a, b in T.grid(n, n):
                for j in T.vectorized(lanes):
                    m[a, b, j] = logits[T.min(block * lanes + j, tokens - 1), a, b]
            for a in range(n):
                for j in T.vectorized(lanes):
                    line[j] = m[a, 0, j]
                for b in range(1, n):
                    for j in T.vectorized(lanes):
                        line[j] = T.max(line[j], m[a, b, j])
                for b in range(n):
                    for j in T.vectorized(lanes):
                        m[a, b, j] = T.exp(m[a, b, j] - line[j])
            for _ in range(spec.iterations):
                for a in T.unroll(n):
                    for j in T.vectorized(lanes):
                        line[j] = m[a, 0, j]
                    for b in T.unroll(1, n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for b in T.unroll(n):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
                for b in T.unroll(n):
                    for j in T.vectorized(lanes):
                        line[j] = m[0, b, j]
                    for a in T.unroll(1, n):
                        for j in T.vectorized(lanes):
                            line[j] = line[j] + m[a, b, j]
                    for a in T.unroll(n):
                        for j in T.vectorized(lanes):
                            m[a, b, j] = m[a, b, j] / (line[j] + T.float32(spec.eps))
            for a, b in T.grid(n, n):
                for j in T.vectorized(lanes):
                    matrix[T.min(block * lanes + j, tokens - 1), a, b] = m[a, b, j]

    return sinkhorn


_KERNEL = Kernel("sinkhorn", _script)
