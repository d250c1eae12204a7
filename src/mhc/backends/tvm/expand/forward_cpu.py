"""The script of ``expand`` for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.expand.tensors import tensors_of
from mhc.backends.tvm.stores import stores
from mhc.backends.tvm.vectors import Row, name_of, registers
from mhc.ops.expand import ExpandSpec


def forward(spec: ExpandSpec, target: Target) -> tvm.tirx.PrimFunc:
    """Copy each vector of ``x`` to every stream."""
    streams, hidden = spec.streams, spec.hidden
    row = Row.of(hidden, registers(target)[0])
    large = stores(row, spec.dtype, target, in_order=True)
    tensors = tensors_of(spec, name_of(spec.dtype))
    tokens = tensors.tokens

    @T.prim_func
    def expand(x: tensors.x, out: tensors.out):
        T.func_attr({"global_symbol": "expand", "tirx.noalias": True})
        T.attr(0, "pragma_import_llvm", large.code)
        for t in T.parallel(tokens):
            piece = T.alloc_buffer((1, row.lanes), "float32")
            past: T.let = large.past(tokens * (streams * hidden))
            for i in range(streams):
                for d in range(row.vectors):
                    if large.possible:
                        for j in T.vectorized(row.lanes):
                            piece[0, j] = x[t, row.start(d) + j]
                        large.put(out, t, i * hidden + row.start(d), piece, 0, past)
                    else:
                        for j in T.vectorized(row.lanes):
                            out[t, i * hidden + row.start(d) + j] = x[t, row.start(d) + j]
            large.end(past)

    return expand
