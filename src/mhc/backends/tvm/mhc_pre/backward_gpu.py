"""The scripts of the gradients of ``mhc_pre`` and ``mhc_head`` for GPUs. No two threads write the same element.

1. Blocks of a few tokens. With z the arguments of the sigmoids and m as in the equations, a token leaves what the
   others need: ``grad_q`` r·alpha·dz, ``slope`` -Σ alpha·dz·m · r²/width, h_pre, and ``grad_z``, what it adds to the
   gradients of bias and, in the last columns, of alpha.
2. Blocks of columns go through a span of tokens: ``dv = grad_q @ phi`` is the gradient of v·gamma, which gives the
  gradient of x, and the span's part of the gradient of gamma.
3. Blocks of columns go through a span of tokens for a group of rows of phi: the span's part of their gradients is the
   sum of ``grad_q · v·gamma``.
4. The parts of all spans are added, in their order: the gradients of phi, and in a launch of their own of gamma.
5. The grad_z of all tokens are added in a tree: the gradients of bias and alpha.

A launch whose gradients nobody asks for does not run; none reads what another gradient needs.
"""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from collections.abc import Mapping
from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch, add_up
from mhc.backends.tvm.mhc_pre.forward_gpu import groups_of, tokens_of_a_block
from mhc.backends.tvm.mhc_pre.tensors import Spec, gates, post_scale, tensors_of, writes_back

# Tokens whose grad_q waits in shared memory.
_TILE = 16

# Rows of phi, at most, whose gradients a thread sums up in registers.
_ROWS = 48


def _most_spans(spec: Spec) -> int:
    """Return the spans that the tokens are cut into, at most: their parts need this many times the memory of phi.

    There are fewer where the columns and the rows of phi alone are thousands of blocks.
    """
    groups, _ = groups_of(spec.mixes, _ROWS)
    return max(4, min(32, 4096 // (-(-spec.width // THREADS) * groups)))


def _length(spec: Spec, tokens: Any) -> Any:
    """Return the tokens of a span, for a number of tokens or for the variable of a script."""
    return (tokens + (_most_spans(spec) - 1)) // _most_spans(spec)


def _spans(spec: Spec, tokens: Any) -> Any:
    """Return the number of spans that cover all tokens."""
    return (tokens + (_length(spec, tokens) - 1)) // _length(spec, tokens)


def scratch(spec: Spec, tokens: Any) -> Mapping[str, tuple[Any, ...]]:
    return {
        "grad_q": (tokens, spec.mixes),
        "slope": (tokens,),
        "h_pre": (tokens, spec.streams),
        "grad_z": (tokens, spec.mixes + gates(spec)),
        "phi_parts": (_most_spans(spec), spec.mixes, spec.width),
        "gamma_parts": (_most_spans(spec), 1, spec.width),
    }


def backward(spec: Spec, dialect: Dialect) -> tuple[Launch, ...]:
    return (
        _by_token(spec, dialect),
        _by_column(spec, dialect),
        _by_row(spec, dialect),
        _add_phi(spec),
        *((_add_gamma(spec),) if spec.gamma else ()),
        _add_tokens(spec, dialect),
    )


def _by_token(spec: Spec, dialect: Dialect) -> Launch:
    f32, dtype = "float32", dialect.stored(spec.dtype)
    streams, hidden, width, mixes, alphas = spec.streams, spec.hidden, spec.width, spec.mixes, gates(spec)
    coefficients, scale = writes_back(spec), post_scale(spec)
    each = dialect.each
    height = tokens_of_a_block(streams)
    add = add_up(dialect, height, streams)
    tensors = tensors_of(spec, dtype, scratch)
    tokens = tensors.tokens

    @T.prim_func
    def by_token(
        x: tensors.x,
        alpha: tensors.alpha,
        bias: tensors.bias,
        m: tensors.m,
        r: tensors.r,
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
        acc = T.alloc_buffer((height, streams), f32, scope="local")
        g = T.alloc_buffer((1,), f32, scope="local")
        sigmoid = T.alloc_buffer((1,), f32, scope="local")
        dz = T.alloc_buffer((1,), f32, scope="local")
        part = T.alloc_buffer((1,), f32, scope="local")
        tree = T.alloc_buffer((streams, THREADS // 2), f32, scope="shared")
        dots = T.alloc_buffer((height, streams), f32, scope="shared")
        products = T.alloc_buffer((height, mixes), f32, scope="shared")
        to_alpha = T.alloc_buffer((height, alphas), f32, scope="shared")

        for t in each(height):
            for i in each(streams):
                acc[t, i] = T.float32(0)
        for d in range(-(-hidden // THREADS)):
            if d * THREADS + thread < hidden:
                for t in each(height):
                    # A last block that is not full repeats the last token, and does not store it again.
                    token: T.let = T.min(block * height + t, tokens - 1)
                    g[0] = dialect.wide(spec.dtype, grad_h_in[token, d * THREADS + thread])
                    for i in each(streams):
                        acc[t, i] = acc[t, i] + g[0] * dialect.wide(
                            spec.dtype, x[token, i * hidden + d * THREADS + thread]
                        )
        add(acc, tree, dots, thread)

        for t in each(height):
            for k in range(-(-mixes // THREADS)):
                row: T.let = k * THREADS + thread
                if row < mixes and block * height + t < tokens:
                    # alpha has one gate each for the rows of phi that make h_pre, h_post and h_res.
                    gate: T.let = T.min(row // streams, alphas - 1)
                    sigmoid[0] = T.sigmoid(alpha[gate] * m[block * height + t, row] + bias[row])
                    if row < streams:
                        dz[0] = dots[t, row] * sigmoid[0] * (T.float32(1) - sigmoid[0])
                        h_pre[block * height + t, row] = sigmoid[0] + T.float32(spec.pre_eps)
                    if coefficients:
                        if row >= 2 * streams:
                            dz[0] = grad_h_res[block * height + t, row - 2 * streams]
                        elif row >= streams:
                            dz[0] = (
                                T.float32(scale)
                                * grad_h_post[block * height + t, row - streams]
                                * sigmoid[0]
                                * (T.float32(1) - sigmoid[0])
                            )
                    grad_z[block * height + t, row] = dz[0]
                    grad_q[block * height + t, row] = alpha[gate] * dz[0] * r[block * height + t]
                    products[t, row] = dz[0] * m[block * height + t, row]
        T.tvm_storage_sync("shared")
        for t in each(height):
            if thread < alphas and block * height + t < tokens:
                # Up to n² terms of either sign: sums of n, and then their sum, keep the rounding errors small.
                dz[0] = T.float32(0)
                for i in T.serial(T.if_then_else(thread < 2, 1, streams)):
                    part[0] = T.float32(0)
                    for o in T.serial(streams):
                        part[0] = part[0] + products[t, (thread + i) * streams + o]
                    dz[0] = dz[0] + part[0]
                grad_z[block * height + t, mixes + thread] = dz[0]
                to_alpha[t, thread] = alpha[thread] * dz[0]
        T.tvm_storage_sync("shared")
        for t in each(height):
            if thread == 0 and block * height + t < tokens:
                dz[0] = T.float32(0)
                for k in each(alphas):
                    dz[0] = dz[0] - to_alpha[t, k]
                slope[block * height + t] = dz[0] * r[block * height + t] * r[block * height + t] / T.float32(width)

    return Launch(by_token, lambda tokens: (-(-tokens // height), 1))


def _tile_of(spec: Spec, rows: int) -> Any:
    """Return a macro ``load(waiting, grad_q, begin, end, first, thread)``, which all threads of a block take part in.

    ``waiting[o, t]`` becomes the grad_q of token ``begin + t`` for row ``first + o`` of phi, and zero beyond the last
    of each. The macro waits before it, until all threads have read the tile before, and after it.
    """
    mixes = spec.mixes

    @T.macro
    def load(waiting, grad_q, begin, end, first, thread):
        T.tvm_storage_sync("shared")
        for k in range(-(-_TILE * rows // THREADS)):
            if k * THREADS + thread < _TILE * rows:
                t: T.let = (k * THREADS + thread) // rows
                o: T.let = (k * THREADS + thread) % rows
                waiting[o, t] = T.float32(0)
                if begin + t < end and first + o < mixes:
                    waiting[o, t] = grad_q[begin + t, first + o]
        T.tvm_storage_sync("shared")

    return load


def _by_column(spec: Spec, dialect: Dialect) -> Launch:
    f32, dtype = "float32", dialect.stored(spec.dtype)
    hidden, width, mixes = spec.hidden, spec.width, spec.mixes
    each = dialect.each
    across = -(-width // THREADS)
    load = _tile_of(spec, mixes)
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
        gamma_parts: tensors.gamma_parts,
    ):
        T.func_attr({"global_symbol": "by_column", "tirx.noalias": True})
        piece = T.launch_thread("blockIdx.x", across)
        span = T.launch_thread("blockIdx.y", _spans(spec, tokens))
        thread = T.launch_thread("threadIdx.x", THREADS)
        waiting = T.alloc_buffer((mixes, _TILE), f32, scope="shared")
        dv = T.alloc_buffer((_TILE,), f32, scope="local")
        v = T.alloc_buffer((1,), f32, scope="local")
        weight = T.alloc_buffer((1,), f32, scope="local")
        to_gamma = T.alloc_buffer((1,), f32, scope="local")
        column: T.let = T.min(piece * THREADS + thread, width - 1)
        length: T.let = _length(spec, tokens)
        end: T.let = T.min((span + 1) * length, tokens)

        to_gamma[0] = T.float32(0)
        for tile in range(T.truncdiv(length + (_TILE - 1), T.int64(_TILE))):
            begin: T.let = span * length + tile * _TILE
            load(waiting, grad_q, begin, end, 0, thread)
            if piece * THREADS + thread < width:
                for t in each(_TILE):
                    dv[t] = T.float32(0)
                # There is at least one token, so this is all of them. LLVM unrolls a bound that it knows, and then
                # loads all rows of phi at once, into four times the registers.
                for o in T.serial(T.min(tokens * mixes, T.int64(mixes))):
                    weight[0] = phi[o, column]
                    for t in each(_TILE):
                        dv[t] = dv[t] + waiting[o, t] * weight[0]
                weight[0] = T.float32(1)
                if spec.gamma:
                    weight[0] = gamma[column]
                for t in each(_TILE):
                    if begin + t < end:
                        v[0] = dialect.wide(spec.dtype, x[begin + t, column])
                        to_gamma[0] = to_gamma[0] + dv[t] * v[0]
                        grad_x[begin + t, column] = dialect.narrow(
                            spec.dtype,
                            dv[t] * weight[0]
                            + slope[begin + t] * v[0]
                            + h_pre[begin + t, column // hidden]
                            * dialect.wide(spec.dtype, grad_h_in[begin + t, column % hidden]),
                        )
        if piece * THREADS + thread < width:
            gamma_parts[span, 0, column] = to_gamma[0]

    return Launch(by_column, lambda tokens: (across, _spans(spec, tokens)), serves=("x", "gamma"))


def _by_row(spec: Spec, dialect: Dialect) -> Launch:
    f32, dtype = "float32", dialect.stored(spec.dtype)
    width, mixes = spec.width, spec.mixes
    each = dialect.each
    across = -(-width // THREADS)
    groups, rows = groups_of(mixes, _ROWS)
    load = _tile_of(spec, rows)
    tensors = tensors_of(spec, dtype, scratch)
    tokens = tensors.tokens

    @T.prim_func
    def by_row(x: tensors.x, gamma: tensors.gamma, grad_q: tensors.grad_q, phi_parts: tensors.phi_parts):
        T.func_attr({"global_symbol": "by_row", "tirx.noalias": True})
        piece = T.launch_thread("blockIdx.x", across)
        group = T.launch_thread("blockIdx.y", _spans(spec, tokens) * groups)
        thread = T.launch_thread("threadIdx.x", THREADS)
        waiting = T.alloc_buffer((rows, _TILE), f32, scope="shared")
        to_phi = T.alloc_buffer((rows,), f32, scope="local")
        v = T.alloc_buffer((1,), f32, scope="local")
        weight = T.alloc_buffer((1,), f32, scope="local")
        column: T.let = T.min(piece * THREADS + thread, width - 1)
        span: T.let = group // groups
        first: T.let = group % groups * rows
        length: T.let = _length(spec, tokens)
        end: T.let = T.min((span + 1) * length, tokens)

        weight[0] = T.float32(1)
        if spec.gamma:
            weight[0] = gamma[column]
        for o in each(rows):
            to_phi[o] = T.float32(0)
        for tile in range(T.truncdiv(length + (_TILE - 1), T.int64(_TILE))):
            begin: T.let = span * length + tile * _TILE
            load(waiting, grad_q, begin, end, first, thread)
            if piece * THREADS + thread < width:
                for t in range(T.max(T.min(T.int64(_TILE), end - begin), T.int64(0))):
                    v[0] = dialect.wide(spec.dtype, x[begin + t, column]) * weight[0]
                    for o in each(rows):
                        to_phi[o] = to_phi[o] + waiting[o, t] * v[0]
        if piece * THREADS + thread < width:
            for o in each(rows):
                if first + o < mixes:
                    phi_parts[span, first + o, column] = to_phi[o]

    return Launch(by_row, lambda tokens: (across, _spans(spec, tokens) * groups), serves=("phi",))


def _add_phi(spec: Spec) -> Launch:
    width, elements = spec.width, spec.mixes * spec.width
    add = _add_parts(spec)
    tensors = tensors_of(spec, "float32", scratch)

    @T.prim_func
    def add_phi(phi_parts: tensors.phi_parts, grad_phi: tensors.grad_phi, tokens: T.int64):
        T.func_attr({"global_symbol": "add_phi", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", -(-elements // THREADS))
        thread = T.launch_thread("threadIdx.x", THREADS)
        total = T.alloc_buffer((1,), "float32", scope="local")
        row: T.let = (block * THREADS + thread) // width
        column: T.let = (block * THREADS + thread) % width
        if block * THREADS + thread < elements:
            add(phi_parts, row, column, tokens, total)
            grad_phi[row, column] = total[0]

    return Launch(add_phi, lambda _: (-(-elements // THREADS), 1), serves=("phi",))


def _add_gamma(spec: Spec) -> Launch:
    width = spec.width
    add = _add_parts(spec)
    tensors = tensors_of(spec, "float32", scratch)

    @T.prim_func
    def add_gamma(gamma_parts: tensors.gamma_parts, grad_gamma: tensors.grad_gamma, tokens: T.int64):
        T.func_attr({"global_symbol": "add_gamma", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", -(-width // THREADS))
        thread = T.launch_thread("threadIdx.x", THREADS)
        total = T.alloc_buffer((1,), "float32", scope="local")
        column: T.let = block * THREADS + thread
        if column < width:
            add(gamma_parts, 0, column, tokens, total)
            grad_gamma[column] = total[0]

    return Launch(add_gamma, lambda _: (-(-width // THREADS), 1), serves=("gamma",))


def _add_parts(spec: Spec) -> Any:
    """Return a macro ``add(parts, row, column, tokens, total)``: ``total[0]`` becomes the sum of the spans' parts."""

    @T.macro
    def add(parts, row, column, tokens, total):
        total[0] = T.float32(0)
        for span in range(_spans(spec, tokens)):
            total[0] = total[0] + parts[span, row, column]

    return add


def _add_tokens(spec: Spec, dialect: Dialect) -> Launch:
    f32, mixes, alphas = "float32", spec.mixes, gates(spec)
    add = add_up(dialect, 1, 1)
    tensors = tensors_of(spec, f32, scratch)
    tokens = tensors.tokens

    @T.prim_func
    def add_tokens(grad_z: tensors.grad_z, grad_alpha: tensors.grad_alpha, grad_bias: tensors.grad_bias):
        T.func_attr({"global_symbol": "add_tokens", "tirx.noalias": True})
        row = T.launch_thread("blockIdx.x", mixes + alphas)
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

    return Launch(add_tokens, lambda _: (mixes + alphas, 1), serves=("alpha", "bias"))
