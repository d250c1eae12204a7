"""The script of ``sinkhorn``'s gradient for GPUs, with the threads and the sums of the forward."""

# No postponed annotations here: TVM reads those of a script as its parameters.

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch
from mhc.backends.tvm.sinkhorn.forward_gpu import exponential_of, matrices_of_a_block
from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.ops.sinkhorn import SinkhornSpec


def backward(spec: SinkhornSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Go through the iterations again, keep every state of the thread's entry, and go back over them.

    A step ``m = p / s`` with ``s = Σp + eps`` takes the gradient ``d`` of ``m`` to ``(d - Σ d·m) / s``, that of ``p``.
    """
    f32, streams, height, iterations = "float32", spec.streams, matrices_of_a_block(spec), spec.iterations
    exponential = exponential_of(spec)

    @T.macro
    def forward(entries, m, line, thread, start, stride, k):
        entries[thread] = m[k]
        T.tvm_storage_sync("shared")
        line[0] = T.float32(0)
        for b in dialect.each(streams):
            line[0] = line[0] + entries[T.min(start + b * stride, THREADS - 1)]
        m[k + 1] = m[k] / (line[0] + T.float32(spec.eps))
        T.tvm_storage_sync("shared")

    @T.macro
    def back(entries, products, m, grad, line, dot, thread, start, stride, k):
        entries[thread] = m[k]
        products[thread] = grad[0] * m[k + 1]
        T.tvm_storage_sync("shared")
        line[0] = T.float32(0)
        dot[0] = T.float32(0)
        for b in dialect.each(streams):
            line[0] = line[0] + entries[T.min(start + b * stride, THREADS - 1)]
            dot[0] = dot[0] + products[T.min(start + b * stride, THREADS - 1)]
        grad[0] = (grad[0] - dot[0]) / (line[0] + T.float32(spec.eps))
        T.tvm_storage_sync("shared")

    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn_backward(logits: tensors.logits, grad_matrix: tensors.grad_matrix, grad_logits: tensors.grad_logits):
        T.func_attr({"global_symbol": "sinkhorn_backward", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        entries = T.alloc_buffer((THREADS,), f32, scope="shared")
        products = T.alloc_buffer((THREADS,), f32, scope="shared")
        m = T.alloc_buffer((2 * iterations + 1,), f32, scope="local")
        grad = T.alloc_buffer((1,), f32, scope="local")
        line = T.alloc_buffer((1,), f32, scope="local")
        dot = T.alloc_buffer((1,), f32, scope="local")
        first: T.let = thread // (streams * streams) * (streams * streams)
        row: T.let = thread % (streams * streams) // streams
        column: T.let = thread % streams
        token: T.let = T.min(block * height + thread // (streams * streams), tokens - 1)

        exponential(logits, token, row, column, m, line)
        for k in range(iterations):
            forward(entries, m, line, thread, first + row * streams, 1, 2 * k)
            forward(entries, m, line, thread, first + column, streams, 2 * k + 1)
        grad[0] = grad_matrix[token, row, column]
        for k in range(iterations):
            back(entries, products, m, grad, line, dot, thread, first + column, streams, 2 * (iterations - k) - 1)
            back(entries, products, m, grad, line, dot, thread, first + row * streams, 1, 2 * (iterations - k) - 2)
        if thread < height * streams * streams and block * height + thread // (streams * streams) < tokens:
            grad_logits[token, row, column] = grad[0] * m[0]

    return (Launch(sinkhorn_backward, lambda tokens: (-(-tokens // height), 1)),)
