"""The script of ``expand``'s gradient for GPUs: a block of threads has one token, and shares out its columns."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from tvm.script import tirx as T

from mhc.backends.tvm.expand.tensors import tensors_of
from mhc.backends.tvm.gpu import THREADS, Dialect, Launch
from mhc.ops.expand import ExpandSpec


def backward(spec: ExpandSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Add up the streams in fp32, one column after the other, and round once."""
    streams, hidden = spec.streams, spec.hidden
    tensors = tensors_of(spec, dialect.stored(spec.dtype))
    tokens = tensors.tokens

    @T.prim_func
    def expand_backward(grad_out: tensors.grad_out, grad_x: tensors.grad_x):
        T.func_attr({"global_symbol": "expand_backward", "tirx.noalias": True})
        token = T.launch_thread("blockIdx.x", tokens)
        thread = T.launch_thread("threadIdx.x", THREADS)
        acc = T.alloc_buffer((1,), "float32", scope="local")
        for k in range(-(-hidden // THREADS)):
            if k * THREADS + thread < hidden:
                acc[0] = T.float32(0)
                for i in dialect.each(streams):
                    acc[0] = acc[0] + dialect.wide(spec.dtype, grad_out[token, i * hidden + k * THREADS + thread])
                grad_x[token, k * THREADS + thread] = dialect.narrow(spec.dtype, acc[0])

    return (Launch(expand_backward, lambda tokens: (tokens, 1)),)
