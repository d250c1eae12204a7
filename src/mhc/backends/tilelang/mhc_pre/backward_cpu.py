"""The CPU kernels of ``mhc_pre``'s gradients; ``factors`` says what each does."""

# No postponed annotations here: TileLang reads those of a kernel as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32, STORAGE, narrow, widen
from mhc.backends.tilelang.mhc_pre.factors import STAGE
from mhc.backends.tilelang.mhc_pre.forward_cpu import GROUP, PIECE, TILE, add_width
from mhc.backends.tilelang.mhc_pre.tensors import tensors_of
from mhc.ops.mhc_pre import MhcPreSpec


def factors(spec: MhcPreSpec, lanes: int) -> Any:
    """Return the kernel for the factors, with the loops of the forward's."""
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    dtype = spec.dtype
    norm_eps, pre_eps = spec.norm_eps, spec.pre_eps
    _, stored = STORAGE[dtype]
    rows, add_products = add_width(spec, lanes)
    columns, last_column = hidden // lanes, hidden // lanes * lanes
    tensors = tensors_of(spec, stored, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_factors(
        x: tensors.x,
        phi: tensors.phi,
        alpha: tensors.alpha,
        bias: tensors.bias,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        grad_h_post: tensors.grad_h_post,
        grad_h_res: tensors.grad_h_res,
        factors: tensors.factors,
    ):
        with T.Kernel(T.ceildiv(tokens, TILE), **CPU_LAUNCH) as block:
            piece = T.alloc_local((TILE, PIECE), FP32)
            squares = T.alloc_local((TILE, lanes), FP32)
            of_piece = T.alloc_local((lanes,), FP32)
            sums = T.alloc_local((TILE, mixes, lanes), FP32)
            acc = T.alloc_local((GROUP, rows, lanes), FP32)
            wide = T.alloc_local((lanes,), FP32)
            inner = T.alloc_local((streams, lanes), FP32)
            mean = T.alloc_local((1,), FP32)
            term = T.alloc_local((1,), FP32)
            mixed = T.alloc_local((1,), FP32)
            gate = T.alloc_local((1,), FP32)
            s = T.alloc_local((1,), FP32)
            dz = T.alloc_local((1,), FP32)

            add_products(x, phi, gamma, tokens, block, piece, squares, of_piece, sums, acc, wide)

            for m in T.serial(T.min(TILE, tokens - block * TILE)):
                for i in T.serial(streams):
                    for v in T.serial(lanes):
                        inner[i, v] = T.float32(0)
                for c in T.serial(columns):
                    for v in T.serial(lanes):
                        wide[v] = widen(grad_h_in[block * TILE + m, c * lanes + v], dtype)
                    for i in T.serial(streams):
                        for v in T.serial(lanes):
                            inner[i, v] = inner[i, v] + wide[v] * widen(
                                x[block * TILE + m, i * hidden + c * lanes + v], dtype
                            )
                for j in T.serial(hidden - last_column):
                    wide[0] = widen(grad_h_in[block * TILE + m, last_column + j], dtype)
                    for i in T.serial(streams):
                        inner[i, j] = inner[i, j] + wide[0] * widen(
                            x[block * TILE + m, i * hidden + last_column + j], dtype
                        )

                mean[0] = T.float32(0)
                for v in T.serial(lanes):
                    mean[0] = mean[0] + squares[m, v]
                mean[0] = mean[0] / T.float32(width) + T.float32(norm_eps)
                term[0] = T.float32(0)
                for o in T.serial(mixes):
                    mixed[0] = T.float32(0)
                    for v in T.serial(lanes):
                        mixed[0] = mixed[0] + sums[m, o, v]
                    mixed[0] = mixed[0] / T.sqrt(mean[0])
                    if o < streams:
                        dz[0] = T.float32(0)
                        for v in T.serial(lanes):
                            dz[0] = dz[0] + inner[o, v]
                        gate[0] = alpha[0]
                        s[0] = T.float32(1) / (T.float32(1) + T.exp(-(gate[0] * mixed[0] + bias[o])))
                        factors[block * TILE + m, mixes + o] = s[0] + T.float32(pre_eps)
                        dz[0] = dz[0] * s[0] * (T.float32(1) - s[0])
                    else:
                        if o < 2 * streams:
                            gate[0] = alpha[1]
                            s[0] = T.float32(1) / (T.float32(1) + T.exp(-(gate[0] * mixed[0] + bias[o])))
                            dz[0] = (
                                grad_h_post[block * TILE + m, o - streams] * T.float32(2) * s[0] * (T.float32(1) - s[0])
                            )
                        else:
                            gate[0] = alpha[2]
                            dz[0] = grad_h_res[block * TILE + m, o - 2 * streams]
                    term[0] = term[0] + gate[0] * dz[0] * mixed[0]
                    factors[block * TILE + m, o] = gate[0] * dz[0] / T.sqrt(mean[0])
                    factors[block * TILE + m, mixes + streams + 1 + o] = dz[0]
                    factors[block * TILE + m, 2 * mixes + streams + 1 + o] = dz[0] * mixed[0]
                factors[block * TILE + m, mixes + streams] = -term[0] / (mean[0] * T.float32(width))

    return mhc_pre_factors


def columns(spec: MhcPreSpec, lanes: int) -> Any:
    """Return the kernel by columns: four vectors of columns at a time, down the tokens in groups. A call is a split."""
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    weighted, dtype = spec.gamma, spec.dtype
    _, stored = STORAGE[dtype]
    # The last vector of a stream begins early enough to end with it: some columns are computed twice, and alike.
    lanes = min(lanes, hidden)
    staged, vectors = mixes + streams + 1, 4
    tensors = tensors_of(spec, stored, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre_columns(
        x: tensors.x,
        phi: tensors.phi,
        gamma: tensors.gamma,
        grad_h_in: tensors.grad_h_in,
        factors: tensors.factors,
        grad_x: tensors.grad_x,
        sums: tensors.sums,
        small: tensors.small,
    ):
        with T.Kernel(streams, **CPU_LAUNCH) as i:
            f = T.alloc_local((GROUP, staged), FP32)
            q = T.alloc_local((vectors, mixes, lanes), FP32)
            wide = T.alloc_local((GROUP, lanes), FP32)
            d = T.alloc_local((GROUP, lanes), FP32)
            total = T.alloc_local((2 * mixes,), FP32)
            of_stage = T.alloc_local((2 * mixes,), FP32)

            for c in T.serial(T.ceildiv(hidden, vectors * lanes)):
                for u in T.serial(vectors):
                    for o in T.serial(mixes):
                        for v in T.serial(lanes):
                            q[u, o, v] = T.float32(0)
                for g in T.serial(T.ceildiv(tokens, GROUP)):
                    # Past the last token, read it again: it adds nothing to the sums, and is not stored.
                    for m in T.serial(GROUP):
                        for o in T.serial(staged):
                            f[m, o] = T.if_then_else(
                                g * GROUP + m < tokens, factors[T.min(g * GROUP + m, tokens - 1), o], T.float32(0)
                            )
                    for u in T.serial(T.min(vectors, T.ceildiv(hidden - c * vectors * lanes, lanes))):
                        start = T.min((c * vectors + u) * lanes, hidden - lanes)
                        for m in T.unroll(GROUP, explicit=True):
                            for v in T.serial(lanes):
                                wide[m, v] = widen(x[T.min(g * GROUP + m, tokens - 1), i * hidden + start + v], dtype)
                            for v in T.serial(lanes):
                                d[m, v] = T.float32(0)
                        for o in T.serial(mixes):
                            for v in T.serial(lanes):
                                q[u, o, v] = (
                                    q[u, o, v]
                                    + f[0, o] * wide[0, v]
                                    + f[1, o] * wide[1, v]
                                    + f[2, o] * wide[2, v]
                                    + f[3, o] * wide[3, v]
                                )
                            for m in T.unroll(GROUP, explicit=True):
                                for v in T.serial(lanes):
                                    d[m, v] = d[m, v] + f[m, o] * phi[o, i * hidden + start + v]
                        for m in T.serial(T.min(GROUP, tokens - g * GROUP)):
                            if weighted:
                                for v in T.serial(lanes):
                                    d[m, v] = d[m, v] * gamma[i * hidden + start + v]
                            for v in T.serial(lanes):
                                grad_x[g * GROUP + m, i * hidden + start + v] = narrow(
                                    d[m, v]
                                    + f[m, mixes + streams] * wide[m, v]
                                    + f[m, mixes + i] * widen(grad_h_in[g * GROUP + m, start + v], dtype),
                                    dtype,
                                )
                for u in T.serial(T.min(vectors, T.ceildiv(hidden - c * vectors * lanes, lanes))):
                    for o in T.serial(mixes):
                        for v in T.serial(lanes):
                            sums[0, o * width + i * hidden + T.min((c * vectors + u) * lanes, hidden - lanes) + v] = q[
                                u, o, v
                            ]

            if i == 0:
                for o in T.serial(2 * mixes):
                    total[o] = T.float32(0)
                for stage in T.serial(T.ceildiv(tokens, STAGE)):
                    for o in T.serial(2 * mixes):
                        of_stage[o] = T.float32(0)
                    for t in T.serial(T.min(STAGE, tokens - stage * STAGE)):
                        for o in T.serial(2 * mixes):
                            of_stage[o] = of_stage[o] + factors[stage * STAGE + t, staged + o]
                    for o in T.serial(2 * mixes):
                        total[o] = total[o] + of_stage[o]
                for o in T.serial(2 * mixes):
                    small[0, o] = total[o]

    return mhc_pre_columns


def total(spec: MhcPreSpec, lanes: int) -> Any:
    """Return the kernel for the totals: a vector of columns at a time."""
    streams, width, mixes, weighted = spec.streams, spec.width, spec.mixes, spec.gamma
    lanes = min(lanes, width)
    tensors = tensors_of(spec, FP32, T)
    splits = tensors.splits

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
        with T.Kernel(T.ceildiv(width, lanes), **CPU_LAUNCH) as block:
            q = T.alloc_local((lanes,), FP32)
            acc = T.alloc_local((lanes,), FP32)
            gate = T.alloc_local((1,), FP32)
            scalar = T.alloc_local((1,), FP32)
            for v in T.serial(lanes):
                acc[v] = T.float32(0)
            for o in T.serial(mixes):
                for v in T.serial(lanes):
                    q[v] = T.float32(0)
                for split in T.serial(splits):
                    for v in T.serial(lanes):
                        q[v] = q[v] + sums[split, o * width + T.min(block * lanes, width - lanes) + v]
                if weighted:
                    for v in T.serial(lanes):
                        acc[v] = acc[v] + phi[o, T.min(block * lanes, width - lanes) + v] * q[v]
                    for v in T.serial(lanes):
                        q[v] = q[v] * gamma[T.min(block * lanes, width - lanes) + v]
                for v in T.serial(lanes):
                    grad_phi[o, T.min(block * lanes, width - lanes) + v] = q[v]
            if weighted:
                for v in T.serial(lanes):
                    grad_gamma[T.min(block * lanes, width - lanes) + v] = acc[v]
            if block == 0:
                for k in T.serial(3):
                    gate[0] = T.float32(0)
                    for o in T.serial(T.if_then_else(k < 2, streams, streams * streams)):
                        scalar[0] = T.float32(0)
                        for split in T.serial(splits):
                            scalar[0] = scalar[0] + small[split, k * streams + o]
                        grad_bias[k * streams + o] = scalar[0]
                        scalar[0] = T.float32(0)
                        for split in T.serial(splits):
                            scalar[0] = scalar[0] + small[split, mixes + k * streams + o]
                        gate[0] = gate[0] + scalar[0]
                    grad_alpha[k] = gate[0]

    return mhc_pre_total
