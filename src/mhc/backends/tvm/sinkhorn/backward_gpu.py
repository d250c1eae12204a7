"""The script of ``sinkhorn``'s gradient for GPUs, with the threads and the sums of the forward."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch
from mhc.backends.tvm.sinkhorn.forward_gpu import block_of, first_of, line_of
from mhc.backends.tvm.sinkhorn.tensors import tensors_of
from mhc.ops.sinkhorn import SinkhornSpec


def divide_by(spec: SinkhornSpec, dialect: Dialect, rows: bool) -> Any:
    """Return a macro: divide the matrix by the sums of its rows or columns, and keep quotients and divisors."""
    each, at, total = dialect.each, block_of(spec), line_of(spec, dialect, rows)

    @T.macro
    def divide(entries, m, line, quotients, divisors, step, thread):
        total(entries, m, line, thread)
        for part in each(at.parts):
            divisors[step, part] = line[part] + T.float32(spec.eps)
            m[part] = m[part] / divisors[step, part]
            quotients[step, part] = m[part]

    return divide


def undo_of(spec: SinkhornSpec, dialect: Dialect, rows: bool) -> Any:
    """Return a macro: ``d``, the gradient of a step's ``m = p / s``, becomes ``(d - Σ d·m) / s``, the one of ``p``."""
    each, at, total = dialect.each, block_of(spec), line_of(spec, dialect, rows)

    @T.macro
    def undo(entries, grad, product, line, quotients, divisors, step, thread):
        for part in each(at.parts):
            product[part] = grad[part] * quotients[step, part]
        total(entries, product, line, thread)
        for part in each(at.parts):
            grad[part] = (grad[part] - line[part]) / divisors[step, part]

    return undo


def undo_first_of(spec: SinkhornSpec, dialect: Dialect) -> Any:
    """Return a macro: ``grad`` of the first iteration's matrix becomes the gradient of the logits."""
    each, at, deepseek = dialect.each, block_of(spec), spec.form == "deepseek"
    sum_of_column, sum_of_row = (line_of(spec, dialect, rows) for rows in (False, True))

    @T.macro
    def undo_first(entries, m, columns, divisor, grad, product, line, thread):
        for part in each(at.parts):
            product[part] = grad[part] * m[part]
        sum_of_row(entries, product, line, thread)
        for part in each(at.parts):
            if deepseek:
                grad[part] = (grad[part] - line[part]) / divisor[part]
                product[part] = grad[part] * columns[part]
            else:
                grad[part] = m[part] * (grad[part] - line[part])
                product[part] = grad[part]
        sum_of_column(entries, product, line, thread)
        for part in each(at.parts):
            if deepseek:
                grad[part] = columns[part] * (grad[part] - line[part])
            else:
                grad[part] = grad[part] - columns[part] * line[part]

    return undo_first


def backward(spec: SinkhornSpec, dialect: Dialect) -> tuple[Launch, ...]:
    """Go through the iterations again, keep the quotients and divisors of the thread's entries, and go back."""
    f32, each, at, later = "float32", dialect.each, block_of(spec), spec.iterations - 1
    first, undo_first = first_of(spec, dialect), undo_first_of(spec, dialect)
    divide_columns, divide_rows = (divide_by(spec, dialect, rows) for rows in (False, True))
    undo_columns, undo_rows = (undo_of(spec, dialect, rows) for rows in (False, True))
    tensors = tensors_of(spec)
    tokens = tensors.tokens

    @T.prim_func
    def sinkhorn_backward(logits: tensors.logits, grad_matrix: tensors.grad_matrix, grad_logits: tensors.grad_logits):
        T.func_attr({"global_symbol": "sinkhorn_backward", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (at.height - 1), T.int64(at.height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        entries = T.alloc_buffer((at.parts * THREADS,), f32, scope="shared")
        begin = T.alloc_buffer((at.parts,), f32, scope="local")
        m = T.alloc_buffer((at.parts,), f32, scope="local")
        columns = T.alloc_buffer((at.parts,), f32, scope="local")
        divisor = T.alloc_buffer((at.parts,), f32, scope="local")
        line = T.alloc_buffer((at.parts,), f32, scope="local")
        product = T.alloc_buffer((at.parts,), f32, scope="local")
        grad = T.alloc_buffer((at.parts,), f32, scope="local")
        # One iteration alone keeps nothing, and an array has at least one element.
        quotients = T.alloc_buffer((2 * max(later, 1), at.parts), f32, scope="local")
        divisors = T.alloc_buffer((2 * max(later, 1), at.parts), f32, scope="local")

        first(logits, tokens, block, thread, entries, begin, columns, divisor, line)
        for part in each(at.parts):
            m[part] = begin[part]
            grad[part] = grad_matrix[
                T.min(at.token(block, thread, part), tokens - 1), at.row(thread, part), at.column(thread, part)
            ]
        for k in range(later):
            divide_columns(entries, m, line, quotients, divisors, 2 * k, thread)
            divide_rows(entries, m, line, quotients, divisors, 2 * k + 1, thread)
        for k in range(later):
            undo_rows(entries, grad, product, line, quotients, divisors, 2 * (later - k) - 1, thread)
            undo_columns(entries, grad, product, line, quotients, divisors, 2 * (later - k) - 2, thread)
        undo_first(entries, begin, columns, divisor, grad, product, line, thread)
        for part in each(at.parts):
            if at.is_inside(thread, part) and at.token(block, thread, part) < tokens:
                grad_logits[at.token(block, thread, part), at.row(thread, part), at.column(thread, part)] = grad[part]

    return (Launch(sinkhorn_backward, at.blocks),)
