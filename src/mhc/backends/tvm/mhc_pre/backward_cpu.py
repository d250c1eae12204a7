"""The script of the gradients of ``mhc_pre`` and ``mhc_head`` for LLVM's CPU targets."""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

import tvm
from tvm.script import tirx as T
from tvm.target import Target

from mhc.backends.tvm.mhc_pre.tensors import Spec, gates, operator, post_scale, tensors_of, writes_back
from mhc.backends.tvm.stores import stores
from mhc.backends.tvm.vectors import STACK_BYTES, Row, fetch, name_of, registers, wide

# Bytes of the rows of grad_phi that one iteration of the second part owns at most. With the same of phi, and of the
# sums of a span of tokens, they stay in the second-level cache. Smaller pieces of x are read slower from the memory.
_OWNED_BYTES = 36864

# Tokens whose terms are added up on their own before they meet other terms: that keeps rounding errors small, most
# of all where there are about as many spans.
_SPAN = 45


def backward(spec: Spec, target: Target) -> tvm.tirx.PrimFunc:
    """Compute three parts in turn. In each, no two threads write the same element: no sum depends on their number.

    1. Tokens. With z the arguments of the sigmoids and m as in the equations, a token leaves what the others need:
       ``grad_q`` r·alpha·dz, ``slope`` -Σ alpha·dz·m · r²/width, and h_pre.
    2. Columns of the flattened streams, through all tokens in order: ``dv = grad_q @ phi`` is the gradient of v·gamma,
       and ``grad_q · v·gamma`` what the token adds to the gradient of phi.
    3. The rows of phi, through all tokens in order and in fp64: the gradients of bias and alpha.

    The last parameters say which gradients are asked for. Loops that serve only others do not run, and the bits of a
    gradient do not depend on them: each has loops of its own. The parameters of inputs that the operator
    does not have are not read.
    """
    f32, dtype, name = "float32", name_of(spec.dtype), f"{operator(spec)}_backward"
    streams, hidden, width, mixes, alphas = spec.streams, spec.hidden, spec.width, spec.mixes, gates(spec)
    coefficients, scale = writes_back(spec), post_scale(spec)
    lanes, held = registers(target)
    row = Row.of(hidden, lanes)
    # Tokens that meet a vector of phi, or of its gradient, at once: half of the registers are theirs, or fewer where
    # their buffers would be too large for registers.
    group = min(held // 2, (STACK_BYTES - 1) // (4 * row.lanes))
    # Each sum for grad_phi waits for its last addition: the sums of so many rows go at the same time.
    at_once = next(rows for rows in (4, 3, 2, 1) if mixes % rows == 0)
    pieces = -(-row.vectors // max(1, _OWNED_BYTES // (4 * mixes * row.lanes)))
    owned = -(-row.vectors // pieces)
    spanned = _SPAN // group
    large = stores(row, spec.dtype, target)
    tensors = tensors_of(spec, dtype)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_backward(
        x: tensors.x,
        phi: tensors.phi,
        alpha: tensors.alpha,
        bias: tensors.bias,
        gamma: tensors.gamma,
        m: tensors.m,
        r: tensors.r,
        grad_h_in: tensors.grad_h_in,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
        grad_x: tensors.grad_x,
        grad_phi: tensors.grad_phi,
        grad_alpha: tensors.grad_alpha,
        grad_bias: tensors.grad_bias,
        grad_gamma: tensors.grad_gamma,
        needs_x: T.int32,
        needs_phi: T.int32,
        needs_alpha: T.int32,
        needs_bias: T.int32,
        needs_gamma: T.int32,
    ):
        T.func_attr({"global_symbol": name, "tirx.noalias": True})
        T.attr(0, "pragma_import_llvm", large.code)
        past: T.let = large.past(tokens * width)
        # What a token adds to the gradients of bias and, in the last columns, of alpha.
        grad_z = T.alloc_buffer((tokens, mixes + alphas), f32)
        slope = T.alloc_buffer((tokens,), f32)
        h_pre = T.alloc_buffer((tokens, streams), f32)
        # A last group that is not full repeats the last token, with a grad_q of zero.
        grad_q = T.alloc_buffer((T.truncdiv(tokens + (group - 1), T.int64(group)) * group, mixes), f32)
        for t in range(T.truncdiv(tokens + (group - 1), T.int64(group)) * group - tokens):
            for o in range(mixes):
                grad_q[tokens + t, o] = T.float32(0)

        for token in T.parallel(tokens):
            dots = T.alloc_buffer((streams, row.lanes), f32)
            g = T.alloc_buffer((row.lanes,), f32)
            sigmoid = T.alloc_buffer((1,), f32)
            # The last few additions have the largest rounding errors, and the gradient of alpha adds these up. Its own
            # terms, up to n² for a token, cancel each other.
            lane_sum = T.alloc_buffer((1,), "float64")
            to_alpha = T.alloc_buffer((alphas,), "float64")

            for i in T.unroll(streams):
                for j in T.vectorized(row.lanes):
                    dots[i, j] = T.float32(0)
            for d in range(row.vectors):
                for j in T.vectorized(row.lanes):
                    g[j] = row.once(d, j, wide(grad_h_in[token, row.start(d) + j]))
                for i in T.unroll(streams):
                    for j in T.vectorized(row.lanes):
                        dots[i, j] = dots[i, j] + g[j] * row.once(d, j, wide(x[token, i * hidden + row.start(d) + j]))

            for i in T.unroll(streams):
                sigmoid[0] = T.sigmoid(alpha[0] * m[token, i] + bias[i])
                h_pre[token, i] = sigmoid[0] + T.float32(spec.pre_eps)
                lane_sum[0] = T.float64(0)
                for j in T.unroll(row.lanes):
                    lane_sum[0] = lane_sum[0] + T.Cast("float64", dots[i, j])
                grad_z[token, i] = T.Cast(f32, lane_sum[0]) * sigmoid[0] * (T.float32(1) - sigmoid[0])
            if coefficients:
                for i in range(streams):
                    sigmoid[0] = T.sigmoid(alpha[1] * m[token, streams + i] + bias[streams + i])
                    grad_z[token, streams + i] = (
                        T.float32(scale) * grad_h_post[token, i] * sigmoid[0] * (T.float32(1) - sigmoid[0])
                    )
                for i in range(streams * streams):
                    grad_z[token, 2 * streams + i] = grad_h_res[token, i]

            for k in range(alphas):
                to_alpha[k] = T.float64(0)
            for o in range(mixes):
                # alpha has one gate each for the rows of phi that make h_pre, h_post and h_res.
                gate: T.let = T.min(o // streams, alphas - 1)
                dz: T.let = grad_z[token, o]
                to_alpha[gate] = to_alpha[gate] + T.Cast("float64", dz) * T.Cast("float64", m[token, o])
                grad_q[token, o] = alpha[gate] * dz * r[token]
            for k in range(alphas):
                grad_z[token, mixes + k] = T.Cast(f32, to_alpha[k])
            slope[token] = T.float32(0)
            for k in range(alphas):
                slope[token] = slope[token] - alpha[k] * grad_z[token, mixes + k]
            slope[token] = slope[token] * r[token] * r[token] / T.float32(width)

        for item in T.parallel(T.if_then_else(needs_x + needs_phi + needs_gamma != 0, streams * pieces, 0)):
            rows = T.alloc_buffer((mixes, owned * row.lanes), f32)
            to_phi = T.alloc_buffer((mixes, owned * row.lanes), f32)
            all_to_phi = T.alloc_buffer((mixes, owned * row.lanes), f32)
            to_gamma = T.alloc_buffer((owned * row.lanes,), f32)
            all_to_gamma = T.alloc_buffer((owned * row.lanes,), f32)
            v = T.alloc_buffer((group, row.lanes), f32)
            dv = T.alloc_buffer((group, row.lanes), f32)
            dx = T.alloc_buffer((1, row.lanes), f32)
            one = T.alloc_buffer((row.lanes,), f32)
            acc = T.alloc_buffer((at_once, row.lanes), f32)
            stream: T.let = item // pieces
            first: T.let = item % pieces * owned
            vectors: T.let = T.min(owned, row.vectors - first)

            for o in range(mixes):
                for k in range(vectors):
                    for j in T.vectorized(row.lanes):
                        rows[o, k * row.lanes + j] = phi[o, stream * hidden + row.start(first + k) + j]
                        all_to_phi[o, k * row.lanes + j] = T.float32(0)
            for k in range(vectors):
                for j in T.vectorized(row.lanes):
                    all_to_gamma[k * row.lanes + j] = T.float32(0)

            for span in range(T.truncdiv(tokens + (spanned * group - 1), T.int64(spanned * group))):
                if needs_phi != 0:
                    for o, k in T.grid(mixes, vectors):
                        for j in T.vectorized(row.lanes):
                            to_phi[o, k * row.lanes + j] = T.float32(0)
                for k in range(vectors):
                    for j in T.vectorized(row.lanes):
                        to_gamma[k * row.lanes + j] = T.float32(0)

                for b in range(
                    T.min(
                        T.int64(spanned),
                        T.truncdiv(tokens + (group - 1), T.int64(group)) - span * spanned,
                    )
                ):
                    t0: T.let = (span * spanned + b) * group
                    for k in range(vectors):
                        column: T.let = row.start(first + k)
                        # The rows of the next group lie far apart: the CPU does not see that they come next.
                        for t in T.unroll(group):
                            following: T.let = T.min(t0 + group + t, tokens - 1)
                            T.evaluate(fetch(x[following, stream * hidden + column]))
                            T.evaluate(fetch(grad_h_in[following, column]))
                            if not past:
                                T.evaluate(fetch(grad_x[following, stream * hidden + column], for_writing=True))
                        for t in T.unroll(group):
                            for j in T.vectorized(row.lanes):
                                v[t, j] = wide(x[T.min(t0 + t, tokens - 1), stream * hidden + column + j])
                        if needs_x + needs_gamma != 0:
                            for t in T.unroll(group):
                                for j in T.vectorized(row.lanes):
                                    dv[t, j] = T.float32(0)
                            for o in range(mixes):
                                for j in T.vectorized(row.lanes):
                                    one[j] = rows[o, k * row.lanes + j]
                                for t in T.unroll(group):
                                    for j in T.vectorized(row.lanes):
                                        dv[t, j] = dv[t, j] + grad_q[t0 + t, o] * one[j]
                            for t in T.unroll(group):
                                if spec.gamma:
                                    for j in T.vectorized(row.lanes):
                                        to_gamma[k * row.lanes + j] = to_gamma[k * row.lanes + j] + dv[t, j] * v[t, j]
                                    for j in T.vectorized(row.lanes):
                                        dv[t, j] = dv[t, j] * gamma[stream * hidden + column + j]
                                if needs_x != 0 and t0 + t < tokens:
                                    for j in T.vectorized(row.lanes):
                                        dx[0, j] = (
                                            dv[t, j]
                                            + slope[t0 + t] * v[t, j]
                                            + h_pre[t0 + t, stream] * wide(grad_h_in[t0 + t, column + j])
                                        )
                                    large.put(grad_x, t0 + t, stream * hidden + column, dx, 0, past)
                        if needs_phi != 0:
                            for t in T.unroll(group):
                                if spec.gamma:
                                    for j in T.vectorized(row.lanes):
                                        v[t, j] = v[t, j] * gamma[stream * hidden + column + j]
                            for q in range(mixes // at_once):
                                for p in T.unroll(at_once):
                                    for j in T.vectorized(row.lanes):
                                        acc[p, j] = to_phi[q * at_once + p, k * row.lanes + j]
                                for t in T.unroll(group):
                                    for p in T.unroll(at_once):
                                        for j in T.vectorized(row.lanes):
                                            acc[p, j] = acc[p, j] + grad_q[t0 + t, q * at_once + p] * v[t, j]
                                for p in T.unroll(at_once):
                                    for j in T.vectorized(row.lanes):
                                        to_phi[q * at_once + p, k * row.lanes + j] = acc[p, j]

                if needs_phi != 0:
                    for o, k in T.grid(mixes, vectors):
                        for j in T.vectorized(row.lanes):
                            all_to_phi[o, k * row.lanes + j] = (
                                all_to_phi[o, k * row.lanes + j] + to_phi[o, k * row.lanes + j]
                            )
                for k in range(vectors):
                    for j in T.vectorized(row.lanes):
                        all_to_gamma[k * row.lanes + j] = all_to_gamma[k * row.lanes + j] + to_gamma[k * row.lanes + j]
            large.end(past)

            if needs_phi != 0:
                for o, k in T.grid(mixes, vectors):
                    for j in T.vectorized(row.lanes):
                        grad_phi[o, stream * hidden + row.start(first + k) + j] = all_to_phi[o, k * row.lanes + j]
            if spec.gamma:
                for k in range(T.if_then_else(needs_gamma != 0, vectors, 0)):
                    for j in T.vectorized(row.lanes):
                        grad_gamma[stream * hidden + row.start(first + k) + j] = all_to_gamma[k * row.lanes + j]

        for o in T.parallel(T.if_then_else(needs_alpha + needs_bias != 0, mixes + alphas, 0)):
            every = T.alloc_buffer((1,), "float64")
            every[0] = T.float64(0)
            for t in range(tokens):
                every[0] = every[0] + T.Cast("float64", grad_z[t, o])
            if o < mixes:
                grad_bias[o] = T.Cast(f32, every[0])
            else:
                grad_alpha[o - mixes] = T.Cast(f32, every[0])

    return mhc_pre_backward
