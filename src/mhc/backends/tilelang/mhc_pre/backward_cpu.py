"""The CPU kernels of the gradients of ``mhc_pre`` and ``mhc_head``; :mod:`.factors` says what each does."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32, STORAGE, fetch, narrow, widen
from mhc.backends.tilelang.mhc_pre.factors import (
    STAGE,
    columns_of_block,
    factors_of,
    gates_of,
    mixes_of,
    post_scale_of,
    writes_back,
)
from mhc.backends.tilelang.mhc_pre.forward_cpu import GROUP
from mhc.backends.tilelang.mhc_pre.tensors import tensors_of
from mhc.ops.read import ReadSpec

OWNED_BYTES = 36864  # of phi, or of its gradient, that stay in the cache while the tokens pass


def owned_vectors(columns: int, mixes: int, lanes: int) -> int:
    """Return how many of the vectors of some columns advance together down the tokens, in pieces of one size."""
    vectors = -(-columns // lanes)
    pieces = -(-vectors // max(1, OWNED_BYTES // (4 * mixes * lanes)))
    return -(-vectors // pieces)


def add_products(spec: ReadSpec, lanes: int) -> Any:
    """Return a macro: by lane, the products of grad_h_in with every stream of a token."""
    streams, hidden, dtype = spec.streams, spec.hidden, spec.dtype
    columns, last_column = hidden // lanes, hidden // lanes * lanes

    @T.macro
    def add(x, grad_h_in, token, inner, wide):
        for i in T.serial(streams):
            for v in T.serial(lanes):
                inner[i, v] = T.float32(0)
        for c in T.serial(columns):
            for v in T.serial(lanes):
                wide[v] = widen(grad_h_in[token, c * lanes + v], dtype)
            for i in T.serial(streams):
                for v in T.serial(lanes):
                    inner[i, v] = inner[i, v] + wide[v] * widen(x[token, i * hidden + c * lanes + v], dtype)
        for j in T.serial(hidden - last_column):
            wide[0] = widen(grad_h_in[token, last_column + j], dtype)
            for i in T.serial(streams):
                inner[i, j] = inner[i, j] + wide[0] * widen(x[token, i * hidden + last_column + j], dtype)

    return add


def factors(spec: ReadSpec, lanes: int) -> Any:
    """Return the kernel for the factors, token by token."""
    streams, width, mixes = spec.streams, spec.width, mixes_of(spec)
    pre_eps = spec.pre_eps
    back, post_scale, gates, place = writes_back(spec), post_scale_of(spec), gates_of(spec), factors_of(spec)
    _, stored = STORAGE[spec.dtype]
    add = add_products(spec, lanes)
    tensors = tensors_of(spec, stored, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_factors(
        x: tensors.x,
        alpha: tensors.alpha,
        bias: tensors.bias,
        m: tensors.m,
        r: tensors.r,
        grad_h_in: tensors.grad_h_in,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
        factors: tensors.factors,
    ):
        with T.Kernel(tokens, **CPU_LAUNCH) as token:
            wide = T.alloc_local((lanes,), FP32)
            inner = T.alloc_local((streams, lanes), FP32)
            term = T.alloc_local((1,), FP32)
            dalpha = T.alloc_local((1,), FP32)
            s = T.alloc_local((1,), FP32)
            dz = T.alloc_local((mixes,), FP32)

            add(x, grad_h_in, token, inner, wide)
            for o in T.serial(streams):
                dz[o] = T.float32(0)
                for v in T.serial(lanes):
                    dz[o] = dz[o] + inner[o, v]
                s[0] = T.float32(1) / (T.float32(1) + T.exp(-(alpha[0] * m[token, o] + bias[o])))
                factors[token, place.h_pre + o] = s[0] + T.float32(pre_eps)
                dz[o] = dz[o] * s[0] * (T.float32(1) - s[0])
            if back:
                for o in T.serial(streams):
                    s[0] = T.float32(1) / (
                        T.float32(1) + T.exp(-(alpha[1] * m[token, streams + o] + bias[streams + o]))
                    )
                    dz[streams + o] = T.float32(post_scale) * grad_h_post[token, o] * s[0] * (T.float32(1) - s[0])
                for o in T.serial(streams * streams):
                    dz[2 * streams + o] = grad_h_res[token, o]

            term[0] = T.float32(0)
            for k in T.serial(gates):
                dalpha[0] = T.float32(0)
                for j in T.serial(T.if_then_else(k < 2, streams, streams * streams)):
                    # The minimum changes nothing: without it TileLang 0.1.8 warns of each access.
                    o = T.min(k * streams + j, mixes - 1)
                    dalpha[0] = dalpha[0] + dz[o] * m[token, o]
                    factors[token, o] = alpha[k] * dz[o] * r[token]
                    factors[token, place.dz + o] = dz[o]
                factors[token, place.dalpha + k] = dalpha[0]
                term[0] = term[0] + alpha[k] * dalpha[0]
            factors[token, place.slope] = -term[0] * r[token] * r[token] / T.float32(width)

    return mhc_pre_factors


def grad_x(spec: ReadSpec, lanes: int) -> Any:
    """Return the kernel for dx: some vectors of columns at a time, down the tokens in groups."""
    streams, hidden, mixes = spec.streams, spec.hidden, mixes_of(spec)
    weighted, dtype, place = spec.gamma, spec.dtype, factors_of(spec)
    _, stored = STORAGE[dtype]
    # The last vector of a stream begins early enough to end with it: some columns are computed twice, and alike.
    lanes = min(lanes, hidden)
    staged = mixes + streams + 1  # the factors before dz
    owned = owned_vectors(hidden, mixes, lanes)
    rows = next(size for size in (8, 6, 5, 4, 3, 2, 1) if mixes % size == 0)
    tensors = tensors_of(spec, stored, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_grad_x(
        x: tensors.x,
        phi: tensors.phi,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        factors: tensors.factors,
        grad_x: tensors.grad_x,
    ):
        with T.Kernel(streams, **CPU_LAUNCH) as i:
            f = T.alloc_local((GROUP, staged), FP32)
            d = T.alloc_local((GROUP, lanes), FP32)

            for c in T.serial(T.ceildiv(hidden, owned * lanes)):
                for g in T.serial(T.ceildiv(tokens, GROUP)):
                    # Past the last token, read it again: it is not stored.
                    for t in T.serial(GROUP):
                        for o in T.serial(staged):
                            f[t, o] = factors[T.min(g * GROUP + t, tokens - 1), o]
                    for u in T.serial(T.min(owned, T.ceildiv(hidden - c * owned * lanes, lanes))):
                        start = T.min((c * owned + u) * lanes, hidden - lanes)
                        # The rows of the next group lie far apart: a CPU does not see that they come next.
                        for t in T.serial(GROUP):
                            fetch(x[T.min((g + 1) * GROUP + t, tokens - 1), i * hidden + start], dtype)
                            fetch(grad_x[T.min((g + 1) * GROUP + t, tokens - 1), i * hidden + start], dtype)
                            fetch(grad_h_in[T.min((g + 1) * GROUP + t, tokens - 1), start], dtype)
                        for t in T.unroll(GROUP, explicit=True):
                            for v in T.serial(lanes):
                                d[t, v] = T.float32(0)
                        for q in T.serial(mixes // rows):
                            for v in T.serial(lanes):
                                for o in T.unroll(rows, explicit=True):
                                    for t in T.unroll(GROUP, explicit=True):
                                        d[t, v] = (
                                            d[t, v] + f[t, q * rows + o] * phi[q * rows + o, i * hidden + start + v]
                                        )
                        for t in T.serial(T.min(GROUP, tokens - g * GROUP)):
                            if weighted:
                                for v in T.serial(lanes):
                                    d[t, v] = d[t, v] * gamma[i * hidden + start + v]
                            for v in T.serial(lanes):
                                grad_x[g * GROUP + t, i * hidden + start + v] = narrow(
                                    d[t, v]
                                    + f[t, place.slope] * widen(x[g * GROUP + t, i * hidden + start + v], dtype)
                                    + f[t, place.h_pre + i] * widen(grad_h_in[g * GROUP + t, start + v], dtype),
                                    dtype,
                                )

    return mhc_pre_grad_x


def sums(spec: ReadSpec, lanes: int) -> Any:
    """Return the kernel for the sums: vectors of columns at a time, down the tokens in groups; a call is a split."""
    width, mixes, dtype = spec.width, mixes_of(spec), spec.dtype
    place, small_sums, columns = factors_of(spec), mixes_of(spec) + gates_of(spec), columns_of_block(spec)
    _, stored = STORAGE[dtype]
    lanes = min(lanes, width)
    owned = owned_vectors(columns, mixes, lanes)
    tensors = tensors_of(spec, stored, T)
    tokens, blocks = tensors.tokens, tensors.blocks

    @T.prim_func
    def mhc_pre_sums(
        x: tensors.x,
        factors: tensors.factors_of_split,
        sums: tensors.sums,
        small: tensors.small,
    ):
        with T.Kernel(blocks, **CPU_LAUNCH) as block:
            f = T.alloc_local((GROUP, mixes), FP32)
            q = T.alloc_local((owned, mixes, lanes), FP32)
            wide = T.alloc_local((GROUP, lanes), FP32)
            all_tokens = T.alloc_local((small_sums,), FP32)
            of_stage = T.alloc_local((small_sums,), FP32)

            for c in T.serial(T.ceildiv(T.min(columns, width - block * columns), owned * lanes)):
                for u in T.serial(owned):
                    for o in T.serial(mixes):
                        for v in T.serial(lanes):
                            q[u, o, v] = T.float32(0)
                for g in T.serial(T.ceildiv(tokens, GROUP)):
                    # Past the last token, read it again: it adds nothing to the sums.
                    for t in T.serial(GROUP):
                        for o in T.serial(mixes):
                            f[t, o] = T.if_then_else(
                                g * GROUP + t < tokens, factors[0, T.min(g * GROUP + t, tokens - 1), o], T.float32(0)
                            )
                    for u in T.serial(owned):
                        # The last vector begins early enough to end with the width; what is there twice is stored once.
                        start = T.min(block * columns + (c * owned + u) * lanes, width - lanes)
                        for t in T.serial(GROUP):
                            fetch(x[T.min((g + 1) * GROUP + t, tokens - 1), start], dtype)
                        for t in T.unroll(GROUP, explicit=True):
                            for v in T.serial(lanes):
                                wide[t, v] = widen(x[T.min(g * GROUP + t, tokens - 1), start + v], dtype)
                        for o in T.serial(mixes):
                            for v in T.serial(lanes):
                                q[u, o, v] = (
                                    q[u, o, v]
                                    + f[0, o] * wide[0, v]
                                    + f[1, o] * wide[1, v]
                                    + f[2, o] * wide[2, v]
                                    + f[3, o] * wide[3, v]
                                )
                for u in T.serial(owned):
                    first = block * columns + (c * owned + u) * lanes
                    start = T.min(first, width - lanes)
                    for o in T.serial(mixes):
                        for v in T.serial(lanes):
                            if start + v >= first:
                                sums[0, block, o, start + v - block * columns] = q[u, o, v]

            if block == 0:
                for o in T.serial(small_sums):
                    all_tokens[o] = T.float32(0)
                for stage in T.serial(T.ceildiv(tokens, STAGE)):
                    for o in T.serial(small_sums):
                        of_stage[o] = T.float32(0)
                    for t in T.serial(T.min(STAGE, tokens - stage * STAGE)):
                        for o in T.serial(small_sums):
                            of_stage[o] = of_stage[o] + factors[0, stage * STAGE + t, place.dz + o]
                    for o in T.serial(small_sums):
                        all_tokens[o] = all_tokens[o] + of_stage[o]
                for o in T.serial(small_sums):
                    small[0, o] = all_tokens[o]

    return mhc_pre_sums


def add_splits(spec: ReadSpec, lanes: int) -> Any:
    """Return a macro: the totals of ``lanes`` columns from ``start`` on, all in one block."""
    mixes, weighted, columns = mixes_of(spec), spec.gamma, columns_of_block(spec)

    @T.macro
    def add(phi, gamma, sums, grad_phi, grad_gamma, splits, block, start, q, acc):
        for v in T.serial(lanes):
            acc[v] = T.float32(0)
        for o in T.serial(mixes):
            for v in T.serial(lanes):
                q[v] = T.float32(0)
            for split in T.serial(splits):
                for v in T.serial(lanes):
                    q[v] = q[v] + sums[split, block, o, start + v]
            if weighted:
                for v in T.serial(lanes):
                    acc[v] = acc[v] + phi[o, block * columns + start + v] * q[v]
                for v in T.serial(lanes):
                    q[v] = q[v] * gamma[block * columns + start + v]
            for v in T.serial(lanes):
                grad_phi[o, block * columns + start + v] = q[v]
        if weighted:
            for v in T.serial(lanes):
                grad_gamma[block * columns + start + v] = acc[v]

    return add


def total(spec: ReadSpec, lanes: int) -> Any:
    """Return the kernel for the totals: a vector of columns at a time, and the columns that are left one at a time."""
    width, mixes, gates, columns = spec.width, mixes_of(spec), gates_of(spec), columns_of_block(spec)
    add_vector, add_column = add_splits(spec, lanes), add_splits(spec, 1)
    tensors = tensors_of(spec, FP32, T)
    splits, blocks = tensors.splits, tensors.blocks

    @T.prim_func
    def mhc_pre_total(
        phi: tensors.phi,
        gamma: tensors.gamma,
        sums: tensors.sums,
        small: tensors.small,
        grad_phi: tensors.grad_phi,
        grad_alpha: tensors.grad_alpha,
        grad_bias: tensors.grad_bias,
        grad_gamma: tensors.grad_gamma,
    ):
        with T.Kernel(blocks, **CPU_LAUNCH) as block:
            q = T.alloc_local((lanes,), FP32)
            acc = T.alloc_local((lanes,), FP32)
            scalar = T.alloc_local((1,), FP32)
            own = T.min(columns, width - block * columns)
            for c in T.serial(own // lanes):
                add_vector(phi, gamma, sums, grad_phi, grad_gamma, splits, block, c * lanes, q, acc)
            for j in T.serial(own % lanes):
                add_column(phi, gamma, sums, grad_phi, grad_gamma, splits, block, own // lanes * lanes + j, q, acc)
            if block == 0:
                for o in T.serial(mixes + gates):
                    scalar[0] = T.float32(0)
                    for split in T.serial(splits):
                        scalar[0] = scalar[0] + small[split, o]
                    if o < mixes:
                        grad_bias[o] = scalar[0]
                    else:
                        grad_alpha[o - mixes] = scalar[0]

    return mhc_pre_total
