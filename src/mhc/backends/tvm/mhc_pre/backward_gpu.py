"""The scripts of ``mhc_pre``'s gradients for GPUs: four launches. No two threads write the same element.

1. Blocks of a few tokens project them again. With z the arguments of the sigmoids and m as in the equations, a token
   leaves what the others need: ``grad_q`` r·alpha·dz, ``slope`` -Σ alpha·dz·m · r²/width, h_pre, and ``grad_z``, what
   it adds to the gradients of bias and, in the last three, of alpha.
2. Blocks of columns go through a span of tokens: ``dv = grad_q @ phi`` is the gradient of v·gamma, and
   ``grad_q · v·gamma`` what the token adds to that of phi. The span's sums are its ``parts``.
3. The parts of all spans are added, in their order: the gradients of phi and, in the last row, of gamma.
4. The grad_z of all tokens are added in a tree: the gradients of bias and alpha.
"""

# No postponed annotations here: TVM reads those of a script as its parameters.

from collections.abc import Mapping
from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch, add_up
from mhc.backends.tvm.mhc_pre.forward_gpu import projection, tokens_of_a_block
from mhc.backends.tvm.mhc_pre.tensors import tensors_of
from mhc.ops.mhc_pre import MhcPreSpec

# Spans that the tokens are cut into, at most: their parts are memory, this many times that of phi.
_SPANS = 32

# Tokens whose grad_q waits in shared memory.
_TILE = 16


def _length(tokens: Any) -> Any:
    """Return the tokens of a span, for a number of tokens or for the variable of a script."""
    return (tokens + (_SPANS - 1)) // _SPANS


def _spans(tokens: Any) -> Any:
    """Return the number of spans that cover all tokens."""
    return (tokens + (_length(tokens) - 1)) // _length(tokens)


def scratch(spec: MhcPreSpec, tokens: int) -> Mapping[str, tuple[int, ...]]:
    return {
        "grad_q": (tokens, spec.mixes),
        "slope": (tokens,),
        "h_pre": (tokens, spec.streams),
        "grad_z": (tokens, spec.mixes + 3),
        "parts": (_SPANS, spec.mixes + 1, spec.width),
    }


def backward(spec: MhcPreSpec, dialect: Dialect) -> tuple[Launch, ...]:
    return (_by_token(spec, dialect), _by_column(spec, dialect), _add_parts(spec), _add_tokens(spec, dialect))


def _by_token(spec: MhcPreSpec, dialect: Dialect) -> Launch:
    f32, dtype = "float32", dialect.stored(spec.dtype)
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    each, rows = dialect.each, spec.mixes + 1 + spec.streams
    height = tokens_of_a_block(rows)
    project = projection(spec, dialect, height)
    add = add_up(dialect, height, rows)
    tensors = tensors_of(spec, dtype, scratch)
    tokens = tensors.tokens

    @T.prim_func
    def by_token(
        x: tensors.x,
        phi: tensors.phi,
        alpha: tensors.alpha,
        bias: tensors.bias,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
        grad_q: tensors.grad_q,
        slope: tensors.slope,
        h_pre: tensors.h_pre,
        grad_z: tensors.grad_z,
    ):
        T.func_attr({"global_symbol": "by_token", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        acc = T.alloc_buffer((height, rows), f32, scope="local")
        g = T.alloc_buffer((1,), f32, scope="local")
        r = T.alloc_buffer((1,), f32, scope="local")
        m = T.alloc_buffer((1,), f32, scope="local")
        sigmoid = T.alloc_buffer((1,), f32, scope="local")
        dz = T.alloc_buffer((1,), f32, scope="local")
        tree = T.alloc_buffer((rows, THREADS // 2), f32, scope="shared")
        sums = T.alloc_buffer((height, rows), f32, scope="shared")
        products = T.alloc_buffer((height, mixes), f32, scope="shared")
        to_alpha = T.alloc_buffer((height, 3), f32, scope="shared")

        project(x, phi, gamma, tokens, block, thread, acc)
        for t in each(height):
            for i in each(streams):
                acc[t, mixes + 1 + i] = T.float32(0)
        for d in range(-(-hidden // THREADS)):
            if d * THREADS + thread < hidden:
                for t in each(height):
                    token: T.let = T.min(block * height + t, tokens - 1)
                    g[0] = dialect.wide(spec.dtype, grad_h_in[token, d * THREADS + thread])
                    for i in each(streams):
                        acc[t, mixes + 1 + i] = acc[t, mixes + 1 + i] + g[0] * dialect.wide(
                            spec.dtype, x[token, i * hidden + d * THREADS + thread]
                        )
        add(acc, tree, sums, thread)

        for t in each(height):
            if thread < mixes and block * height + t < tokens:
                # alpha has one gate each for the rows of phi that make h_pre, h_post and h_res.
                gate: T.let = T.min(thread // streams, 2)
                r[0] = T.rsqrt(sums[t, mixes] / T.float32(width) + T.float32(spec.norm_eps))
                m[0] = sums[t, thread] * r[0]
                sigmoid[0] = T.sigmoid(alpha[gate] * m[0] + bias[thread])
                if thread < streams:
                    dz[0] = sums[t, mixes + 1 + thread] * sigmoid[0] * (T.float32(1) - sigmoid[0])
                    h_pre[block * height + t, thread] = sigmoid[0] + T.float32(spec.pre_eps)
                elif thread < 2 * streams:
                    dz[0] = (
                        T.float32(2)
                        * grad_h_post[block * height + t, thread - streams]
                        * sigmoid[0]
                        * (T.float32(1) - sigmoid[0])
                    )
                else:
                    dz[0] = grad_h_res[block * height + t, thread - 2 * streams]
                grad_z[block * height + t, thread] = dz[0]
                grad_q[block * height + t, thread] = alpha[gate] * dz[0] * r[0]
                products[t, thread] = dz[0] * m[0]
        T.tvm_storage_sync("shared")
        for t in each(height):
            if thread < 3 and block * height + t < tokens:
                dz[0] = T.float32(0)
                for o in T.serial(T.if_then_else(thread < 2, streams, streams * streams)):
                    dz[0] = dz[0] + products[t, thread * streams + o]
                grad_z[block * height + t, mixes + thread] = dz[0]
                to_alpha[t, thread] = alpha[thread] * dz[0]
        T.tvm_storage_sync("shared")
        for t in each(height):
            if thread == 0 and block * height + t < tokens:
                r[0] = T.rsqrt(sums[t, mixes] / T.float32(width) + T.float32(spec.norm_eps))
                slope[block * height + t] = (
                    -(to_alpha[t, 0] + to_alpha[t, 1] + to_alpha[t, 2]) * r[0] * r[0] / T.float32(width)
                )

    return Launch(by_token, lambda tokens: (-(-tokens // height), 1))


def _by_column(spec: MhcPreSpec, dialect: Dialect) -> Launch:
    f32, dtype = "float32", dialect.stored(spec.dtype)
    hidden, width, mixes = spec.hidden, spec.width, spec.mixes
    each = dialect.each
    across = -(-width // THREADS)
    tensors = tensors_of(spec, dtype, scratch)
    tokens = tensors.tokens

    @T.prim_func
    def by_column(
        x: tensors.x,
        phi: tensors.phi,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        grad_q: tensors.grad_q,
        slope: tensors.slope,
        h_pre: tensors.h_pre,
        grad_x: tensors.grad_x,
        parts: tensors.parts,
    ):
        T.func_attr({"global_symbol": "by_column", "tirx.noalias": True})
        piece = T.launch_thread("blockIdx.x", across)
        span = T.launch_thread("blockIdx.y", _spans(tokens))
        thread = T.launch_thread("threadIdx.x", THREADS)
        waiting = T.alloc_buffer((_TILE, mixes), f32, scope="shared")
        rows = T.alloc_buffer((mixes,), f32, scope="local")
        to_phi = T.alloc_buffer((mixes + 1,), f32, scope="local")
        v = T.alloc_buffer((1,), f32, scope="local")
        dv = T.alloc_buffer((1,), f32, scope="local")
        weight = T.alloc_buffer((1,), f32, scope="local")
        column: T.let = T.min(piece * THREADS + thread, width - 1)
        length: T.let = _length(tokens)
        end: T.let = T.min((span + 1) * length, tokens)

        weight[0] = T.float32(1)
        if spec.gamma:
            weight[0] = gamma[column]
        for o in each(mixes):
            rows[o] = phi[o, column]
        for o in each(mixes + 1):
            to_phi[o] = T.float32(0)
        for tile in range(T.truncdiv(length + (_TILE - 1), T.int64(_TILE))):
            begin: T.let = span * length + tile * _TILE
            T.tvm_storage_sync("shared")
            for k in range(-(-_TILE * mixes // THREADS)):
                if k * THREADS + thread < _TILE * mixes and begin + (k * THREADS + thread) // mixes < end:
                    waiting[(k * THREADS + thread) // mixes, (k * THREADS + thread) % mixes] = grad_q[
                        begin + (k * THREADS + thread) // mixes, (k * THREADS + thread) % mixes
                    ]
            T.tvm_storage_sync("shared")
            if piece * THREADS + thread < width:
                for t in range(T.max(T.min(T.int64(_TILE), end - begin), T.int64(0))):
                    v[0] = dialect.wide(spec.dtype, x[begin + t, column])
                    dv[0] = T.float32(0)
                    for o in each(mixes):
                        dv[0] = dv[0] + waiting[t, o] * rows[o]
                        to_phi[o] = to_phi[o] + waiting[t, o] * (v[0] * weight[0])
                    to_phi[mixes] = to_phi[mixes] + dv[0] * v[0]
                    grad_x[begin + t, column] = dialect.narrow(
                        spec.dtype,
                        dv[0] * weight[0]
                        + slope[begin + t] * v[0]
                        + h_pre[begin + t, column // hidden]
                        * dialect.wide(spec.dtype, grad_h_in[begin + t, column % hidden]),
                    )
        if piece * THREADS + thread < width:
            for o in each(mixes + 1):
                parts[span, o, column] = to_phi[o]

    return Launch(by_column, lambda tokens: (across, _spans(tokens)))


def _add_parts(spec: MhcPreSpec) -> Launch:
    f32, width, mixes = "float32", spec.width, spec.mixes
    elements = (mixes + int(spec.gamma)) * width
    tensors = tensors_of(spec, f32, scratch)

    @T.prim_func
    def add_parts(parts: tensors.parts, grad_phi: tensors.grad_phi, grad_gamma: tensors.grad_gamma, tokens: T.int64):
        T.func_attr({"global_symbol": "add_parts", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", -(-elements // THREADS))
        thread = T.launch_thread("threadIdx.x", THREADS)
        total = T.alloc_buffer((1,), f32, scope="local")
        row: T.let = (block * THREADS + thread) // width
        column: T.let = (block * THREADS + thread) % width
        if block * THREADS + thread < elements:
            total[0] = T.float32(0)
            for span in range(_spans(tokens)):
                total[0] = total[0] + parts[span, row, column]
            if row < mixes:
                grad_phi[row, column] = total[0]
            elif spec.gamma:
                grad_gamma[column] = total[0]

    return Launch(add_parts, lambda _: (-(-elements // THREADS), 1))


def _add_tokens(spec: MhcPreSpec, dialect: Dialect) -> Launch:
    f32, mixes = "float32", spec.mixes
    add = add_up(dialect, 1, 1)
    tensors = tensors_of(spec, f32, scratch)
    tokens = tensors.tokens

    @T.prim_func
    def add_tokens(grad_z: tensors.grad_z, grad_alpha: tensors.grad_alpha, grad_bias: tensors.grad_bias):
        T.func_attr({"global_symbol": "add_tokens", "tirx.noalias": True})
        row = T.launch_thread("blockIdx.x", mixes + 3)
        thread = T.launch_thread("threadIdx.x", THREADS)
        acc = T.alloc_buffer((1, 1), f32, scope="local")
        tree = T.alloc_buffer((1, THREADS // 2), f32, scope="shared")
        total = T.alloc_buffer((1, 1), f32, scope="shared")
        acc[0, 0] = T.float32(0)
        for k in range(T.truncdiv(tokens + (THREADS - 1), T.int64(THREADS))):
            if k * THREADS + thread < tokens:
                acc[0, 0] = acc[0, 0] + grad_z[k * THREADS + thread, row]
        add(acc, tree, total, thread)
        if thread == 0:
            if row < mixes:
                grad_bias[row] = total[0, 0]
            else:
                grad_alpha[row - mixes] = total[0, 0]

    return Launch(add_tokens, lambda _: (mixes + 3, 1))
