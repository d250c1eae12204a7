"""The script of ``mhc_post`` for GPUs: a block of threads has one token, and shares out its columns."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch
from mhc.backends.tvm.mhc_post.tensors import tensors_of
from mhc.ops.mhc_post import MhcPostSpec


def forward(spec: MhcPostSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Put the token's coefficients into shared memory; each element of ``x`` and ``y`` is read once."""
    f32, dtype = "float32", dialect.stored(spec.dtype)
    streams, hidden, each = spec.streams, spec.hidden, dialect.each
    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_post(x: tensors.x, y: tensors.y, h_post: tensors.h_post, h_res: tensors.h_res, out: tensors.out):
        T.func_attr({"global_symbol": "mhc_post", "tirx.noalias": True})
        token = T.launch_thread("blockIdx.x", tokens)
        thread = T.launch_thread("threadIdx.x", THREADS)
        mix = T.alloc_buffer((streams, streams + 1), f32, scope="shared")
        v = T.alloc_buffer((streams + 1,), f32, scope="local")
        acc = T.alloc_buffer((1,), f32, scope="local")

        if thread < streams:
            for s in each(streams):
                mix[thread, s] = h_res[token, thread, s]
            mix[thread, streams] = h_post[token, thread]
        T.tvm_storage_sync("shared")
        for k in range(-(-hidden // THREADS)):
            if k * THREADS + thread < hidden:
                for s in each(streams):
                    v[s] = dialect.wide(spec.dtype, x[token, s * hidden + k * THREADS + thread])
                v[streams] = dialect.wide(spec.dtype, y[token, k * THREADS + thread])
                for i in each(streams):
                    acc[0] = mix[i, streams] * v[streams]
                    for s in each(streams):
                        acc[0] = acc[0] + mix[i, s] * v[s]
                    out[token, i * hidden + k * THREADS + thread] = dialect.narrow(spec.dtype, acc[0])

    return (Launch(mhc_post, lambda tokens: (tokens, 1)),)
