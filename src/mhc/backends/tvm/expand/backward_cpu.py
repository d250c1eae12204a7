"""The script of ``expand``'s gradient for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.expand.tensors import tensors_of
from mhc.backends.tvm.vectors import Row, fetch, name_of, narrow, registers, wide
from mhc.ops.expand import ExpandSpec


def backward(spec: ExpandSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Add up the streams in fp32, one vector of columns after the other, and round once."""
    dtype = name_of(spec.dtype)
    streams, hidden = spec.streams, spec.hidden
    row = Row.of(hidden, registers(target)[0])
    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def expand_backward(grad_out: tensors.grad_out, grad_x: tensors.grad_x):
        T.func_attr({"global_symbol": "expand_backward", "tirx.noalias": True})
        for t in T.parallel(tokens):
            acc = T.alloc_buffer((row.lanes,), "float32")
            for d in range(row.vectors):
                # The rows of the next token: the CPU sees that a row goes on, but not where the next one begins.
                for i in T.unroll(streams):
                    T.evaluate(fetch(grad_out[T.min(t + 1, tokens - 1), i * hidden + row.start(d)], cache=1))
                for j in T.vectorized(row.lanes):
                    acc[j] = T.float32(0)
                for i in T.unroll(streams):
                    for j in T.vectorized(row.lanes):
                        acc[j] = acc[j] + wide(grad_out[t, i * hidden + row.start(d) + j])
                for j in T.vectorized(row.lanes):
                    grad_x[t, row.start(d) + j] = narrow(dtype, acc[j])

    return expand_backward
