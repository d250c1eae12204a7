"""The script of ``expand`` for GPUs: a block of threads has one token, and shares out its columns."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from tvm.script import tirx as T

from mhc.backends.tvm.expand.tensors import tensors_of
from mhc.backends.tvm.gpu import THREADS, Dialect, Launch
from mhc.ops.expand import ExpandSpec


def forward(spec: ExpandSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Copy each element to every stream; it is read once."""
    streams, hidden, dtype = spec.streams, spec.hidden, dialect.stored(spec.dtype)
    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def expand(x: tensors.x, out: tensors.out):
        T.func_attr({"global_symbol": "expand", "tirx.noalias": True})
        token = T.launch_thread("blockIdx.x", tokens)
        thread = T.launch_thread("threadIdx.x", THREADS)
        v = T.alloc_buffer((1,), dtype, scope="local")
        for k in range(-(-hidden // THREADS)):
            if k * THREADS + thread < hidden:
                v[0] = x[token, k * THREADS + thread]
                for i in dialect.each(streams):
                    out[token, i * hidden + k * THREADS + thread] = v[0]

    return (Launch(expand, lambda tokens: (tokens, 1)),)
