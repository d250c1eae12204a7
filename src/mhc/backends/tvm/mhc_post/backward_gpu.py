"""The script of ``mhc_post``'s gradients for GPUs: a block of threads has one token, and shares out its columns."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch, add_up
from mhc.backends.tvm.mhc_post.tensors import tensors_of
from mhc.ops.mhc_post import MhcPostSpec


def rows_of(streams: int) -> int:
    """Return the rows of h_res whose gradients are summed at once.

    All of them where a thread has registers, and a block shared memory, for so many sums. Otherwise x, y and grad_out
    are read again for every few rows.
    """
    return streams if streams <= 8 else 4


def backward(spec: MhcPostSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Compute columns of the gradients of ``x`` and ``y``, and add the coefficients' gradients up over all threads.

    In the sums row ``i`` has ``h_res[i, :]``, and last ``h_post[i]``.
    """
    f32, dtype = "float32", dialect.stored(spec.dtype)
    streams, hidden, each = spec.streams, spec.hidden, dialect.each
    rows, wide = rows_of(streams), streams + 1
    add = add_up(dialect, 1, rows * wide)
    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_post_backward(
        x: tensors.x,
        y: tensors.y,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
        grad_out: tensors.grad_out,
        grad_x: tensors.grad_x,
        grad_y: tensors.grad_y,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
    ):
        T.func_attr({"global_symbol": "mhc_post_backward", "tirx.noalias": True})
        token = T.launch_thread("blockIdx.x", tokens)
        thread = T.launch_thread("threadIdx.x", THREADS)
        mix = T.alloc_buffer((streams, wide), f32, scope="shared")
        tree = T.alloc_buffer((rows * wide, THREADS // 2), f32, scope="shared")
        sums = T.alloc_buffer((1, rows * wide), f32, scope="shared")
        g = T.alloc_buffer((streams,), f32, scope="local")
        v = T.alloc_buffer((1,), f32, scope="local")
        to_v = T.alloc_buffer((1,), f32, scope="local")
        acc = T.alloc_buffer((1, rows * wide), f32, scope="local")

        if thread < streams:
            for s in each(streams):
                mix[thread, s] = h_res[token, thread, s]
            mix[thread, streams] = h_post[token, thread]
        T.tvm_storage_sync("shared")
        for k in range(-(-hidden // THREADS)):
            if k * THREADS + thread < hidden:
                for i in each(streams):
                    g[i] = dialect.wide(spec.dtype, grad_out[token, i * hidden + k * THREADS + thread])
                for s in each(streams):
                    to_v[0] = T.float32(0)
                    for i in each(streams):
                        to_v[0] = to_v[0] + mix[i, s] * g[i]
                    grad_x[token, s * hidden + k * THREADS + thread] = dialect.narrow(spec.dtype, to_v[0])
                to_v[0] = T.float32(0)
                for i in each(streams):
                    to_v[0] = to_v[0] + mix[i, streams] * g[i]
                grad_y[token, k * THREADS + thread] = dialect.narrow(spec.dtype, to_v[0])
        for group in range(-(-streams // rows)):
            for o in each(rows * wide):
                acc[0, o] = T.float32(0)
            for k in range(-(-hidden // THREADS)):
                if k * THREADS + thread < hidden:
                    # Rows beyond the last repeat it; their sums are not stored.
                    for i in each(rows):
                        g[i] = dialect.wide(
                            spec.dtype,
                            grad_out[token, T.min(group * rows + i, streams - 1) * hidden + k * THREADS + thread],
                        )
                    for s in each(streams):
                        v[0] = dialect.wide(spec.dtype, x[token, s * hidden + k * THREADS + thread])
                        for i in each(rows):
                            acc[0, i * wide + s] = acc[0, i * wide + s] + g[i] * v[0]
                    v[0] = dialect.wide(spec.dtype, y[token, k * THREADS + thread])
                    for i in each(rows):
                        acc[0, i * wide + streams] = acc[0, i * wide + streams] + g[i] * v[0]
            add(acc, tree, sums, thread)
            if thread < rows and group * rows + thread < streams:
                for s in each(streams):
                    grad_h_res[token, group * rows + thread, s] = sums[0, thread * wide + s]
                grad_h_post[token, group * rows + thread] = sums[0, thread * wide + streams]

    return (Launch(mhc_post_backward, lambda tokens: (tokens, 1)),)
