"""The kernels of the gradients of ``mhc_pre`` and ``mhc_head``: of a token, of columns, and of small tensors."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.tiles import DTYPES, FP32, SEGMENT, THREADS, columns_of


def read_backward(spec: Any) -> Any:
    """Return the gradient of one token as a prim_func, and what the sums over tokens are made from.

    ``grad_logits`` are gradients of what is added to ``bias``, ``grad_sums`` gradients of the products with ``phi``.
    """
    n, hidden, mixes, dtype = spec.streams, spec.hidden, spec.mixes, DTYPES[spec.dtype]
    width, tokens = columns_of(hidden, mixes), T.dynamic("tokens")
    blocks, writes_back, gamma_given = hidden // width, mixes > n, spec.gamma
    alphas, post_scale = 3 if writes_back else 1, getattr(spec, "post_scale", 1.0)

    @T.prim_func
    def read_backward(
        x: T.Tensor((tokens, n * hidden), dtype),
        phi: T.Tensor((mixes, n * hidden), FP32),
        alpha: T.Tensor((alphas,), FP32),
        bias: T.Tensor((mixes,), FP32),
        gamma: T.Tensor((n * hidden,), FP32),
        m: T.Tensor((tokens, mixes), FP32),
        r: T.Tensor((tokens,), FP32),
        grad_h_in: T.Tensor((tokens, hidden), dtype),
        grad_h_post: T.Tensor((tokens, n), FP32),
        grad_h_res: T.Tensor((tokens, n * n), FP32),
        grad_x: T.Tensor((tokens, n * hidden), dtype),
        grad_logits: T.Tensor((tokens, mixes), FP32),
        grad_sums: T.Tensor((tokens, mixes), FP32),
    ):
        with T.Kernel(tokens) as token:
            factors = T.alloc_shared((alphas,), FP32)
            biases = T.alloc_shared((mixes,), FP32)
            mix = T.alloc_shared((mixes,), FP32)
            scale = T.alloc_shared((1,), FP32)
            grad_post = T.alloc_shared((n,), FP32)
            grad_res = T.alloc_shared((n * n,), FP32)
            tile = T.alloc_shared((width,), dtype)
            grads = T.alloc_shared((width,), dtype)
            weights = T.alloc_shared((width,), FP32)
            rows = T.alloc_shared((mixes, width), FP32)
            part_of_gate = T.alloc_shared((n, THREADS), FP32)
            gates = T.alloc_shared((n,), FP32)
            to_logits = T.alloc_shared((mixes,), FP32)
            to_sums = T.alloc_shared((mixes,), FP32)
            of_norm = T.alloc_shared((1,), FP32)
            result = T.alloc_shared((width,), dtype)
            T.copy(alpha[0:alphas], factors)
            T.copy(bias[0:mixes], biases)
            T.copy(m[token, 0:mixes], mix)
            T.copy(r[token : token + 1], scale)
            if writes_back:
                T.copy(grad_h_post[token, 0:n], grad_post)
                T.copy(grad_h_res[token, 0 : n * n], grad_res)
            with T.SimtVF(threads=THREADS):
                for i, lane in T.Parallel(n, THREADS):
                    part_of_gate[i, lane] = T.float32(0)
            for i in T.serial(n):
                for block in T.serial(blocks):
                    T.copy(x[token, i * hidden + block * width : i * hidden + block * width + width], tile)
                    T.copy(grad_h_in[token, block * width : block * width + width], grads)
                    with T.SimtVF(threads=THREADS):
                        own = T.alloc_local((1,), FP32)
                        lane = T.get_thread_binding()
                        own[0] = T.float32(0)
                        for c in T.serial(T.ceildiv(width, THREADS)):
                            if c * THREADS + lane < width:
                                own[0] = own[0] + T.cast(tile[c * THREADS + lane], FP32) * T.cast(
                                    grads[c * THREADS + lane], FP32
                                )
                        part_of_gate[i, lane] = part_of_gate[i, lane] + own[0]
            with T.SimtVF(threads=THREADS):
                gate = T.alloc_local((1,), FP32)
                total = T.alloc_local((1,), FP32)
                thread = T.get_thread_binding()
                for step in T.serial(T.ceildiv(mixes, THREADS)):
                    k = step * THREADS + thread
                    if k < mixes:
                        gate[0] = T.float32(1) / (
                            T.float32(1) + T.exp(-(factors[T.min(k // n, alphas - 1)] * mix[k] + biases[k]))
                        )
                        total[0] = T.float32(0)
                        if k < n:
                            for lane in T.serial(THREADS):
                                total[0] = total[0] + part_of_gate[k, lane]
                            gates[k] = gate[0] + T.float32(spec.pre_eps)
                            to_logits[k] = total[0] * gate[0] * (T.float32(1) - gate[0])
                        if writes_back:
                            if T.And(k >= n, k < 2 * n):
                                to_logits[k] = (
                                    T.float32(post_scale) * grad_post[k - n] * gate[0] * (T.float32(1) - gate[0])
                                )
                            if k >= 2 * n:
                                to_logits[k] = grad_res[k - 2 * n]
            with T.SimtVF(threads=THREADS):
                for k in T.Parallel(mixes):
                    to_sums[k] = factors[T.min(k // n, alphas - 1)] * to_logits[k] * scale[0]
            with T.SimtVF(threads=THREADS):
                norm = T.alloc_local((1,), FP32)
                for _ in T.Parallel(1):
                    norm[0] = T.float32(0)
                    for k in T.serial(mixes):
                        norm[0] = norm[0] + to_sums[k] * mix[k]
                    # r = (mean(v²) + eps)^(-1/2), and m has it as a factor.
                    of_norm[0] = -norm[0] * scale[0] / T.float32(n * hidden)
            T.copy(to_logits, grad_logits[token, 0:mixes])
            T.copy(to_sums, grad_sums[token, 0:mixes])
            for i in T.serial(n):
                for block in T.serial(blocks):
                    T.copy(x[token, i * hidden + block * width : i * hidden + block * width + width], tile)
                    T.copy(grad_h_in[token, block * width : block * width + width], grads)
                    T.copy(phi[0:mixes, i * hidden + block * width : i * hidden + block * width + width], rows)
                    if gamma_given:
                        T.copy(gamma[i * hidden + block * width : i * hidden + block * width + width], weights)
                    with T.SimtVF(threads=THREADS):
                        back = T.alloc_local((1,), FP32)
                        column = T.get_thread_binding()
                        for c in T.serial(T.ceildiv(width, THREADS)):
                            if c * THREADS + column < width:
                                back[0] = T.float32(0)
                                for k in T.serial(mixes):
                                    back[0] = back[0] + rows[k, c * THREADS + column] * to_sums[k]
                                if gamma_given:
                                    back[0] = back[0] * weights[c * THREADS + column]
                                result[c * THREADS + column] = T.cast(
                                    back[0]
                                    + of_norm[0] * T.cast(tile[c * THREADS + column], FP32)
                                    + gates[i] * T.cast(grads[c * THREADS + column], FP32),
                                    dtype,
                                )
                    T.copy(result, grad_x[token, i * hidden + block * width : i * hidden + block * width + width])

    return read_backward


def read_columns(spec: Any) -> Any:
    """Return the gradients of ``phi`` and ``gamma`` as a prim_func: a core has a block of columns."""
    mixes, dtype, gamma_given = spec.mixes, DTYPES[spec.dtype], spec.gamma
    width, all_columns, tokens = columns_of(spec.hidden, spec.mixes), spec.streams * spec.hidden, T.dynamic("tokens")

    @T.prim_func
    def read_columns(
        x: T.Tensor((tokens, all_columns), dtype),
        phi: T.Tensor((mixes, all_columns), FP32),
        gamma: T.Tensor((all_columns,), FP32),
        grad_sums: T.Tensor((tokens, mixes), FP32),
        grad_phi: T.Tensor((mixes, all_columns), FP32),
        grad_gamma: T.Tensor((all_columns,), FP32),
    ):
        with T.Kernel(all_columns // width) as block:
            tile = T.alloc_shared((SEGMENT, width), dtype)
            sums = T.alloc_shared((SEGMENT, mixes), FP32)
            rows = T.alloc_shared((mixes, width), FP32)
            weights = T.alloc_shared((width,), FP32)
            to_phi = T.alloc_shared((mixes, width), FP32)
            result = T.alloc_shared((mixes, width), FP32)
            to_gamma = T.alloc_shared((width,), FP32)
            with T.SimtVF(threads=THREADS):
                for k, d in T.Parallel(mixes, width):
                    to_phi[k, d] = T.float32(0)
            for segment in T.serial(T.ceildiv(tokens, SEGMENT)):
                T.copy(x[segment * SEGMENT : segment * SEGMENT + SEGMENT, block * width : block * width + width], tile)
                T.copy(grad_sums[segment * SEGMENT : segment * SEGMENT + SEGMENT, 0:mixes], sums)
                with T.SimtVF(threads=THREADS):
                    acc = T.alloc_local((1,), FP32)
                    thread = T.get_thread_binding()
                    for step in T.serial(T.ceildiv(mixes * width, THREADS)):
                        if step * THREADS + thread < mixes * width:
                            k = (step * THREADS + thread) // width
                            d = (step * THREADS + thread) % width
                            acc[0] = T.float32(0)
                            # A copy past the last token leaves what was in the tile before.
                            for t in T.serial(T.min(SEGMENT, tokens - segment * SEGMENT)):
                                acc[0] = acc[0] + sums[t, k] * T.cast(tile[t, d], FP32)
                            to_phi[k, d] = to_phi[k, d] + acc[0]
            if gamma_given:
                T.copy(phi[0:mixes, block * width : block * width + width], rows)
                T.copy(gamma[block * width : block * width + width], weights)
            with T.SimtVF(threads=THREADS):
                # Both gradients are sums of the same products: of phi times gamma, of gamma times phi.
                for k, d in T.Parallel(mixes, width):
                    if gamma_given:
                        result[k, d] = to_phi[k, d] * weights[d]
                    else:
                        result[k, d] = to_phi[k, d]
            T.copy(result, grad_phi[0:mixes, block * width : block * width + width])
            if gamma_given:
                with T.SimtVF(threads=THREADS):
                    own = T.alloc_local((1,), FP32)
                    column = T.get_thread_binding()
                    for c in T.serial(T.ceildiv(width, THREADS)):
                        if c * THREADS + column < width:
                            own[0] = T.float32(0)
                            for k in T.serial(mixes):
                                own[0] = own[0] + rows[k, c * THREADS + column] * to_phi[k, c * THREADS + column]
                            to_gamma[c * THREADS + column] = own[0]
                T.copy(to_gamma, grad_gamma[block * width : block * width + width])

    return read_columns


def read_small(spec: Any) -> Any:
    """Return the gradients of ``alpha`` and ``bias`` as a prim_func: the only core has all tokens."""
    n, mixes, tokens = spec.streams, spec.mixes, T.dynamic("tokens")
    alphas = 3 if mixes > n else 1

    @T.prim_func
    def read_small(
        m: T.Tensor((tokens, mixes), FP32),
        grad_logits: T.Tensor((tokens, mixes), FP32),
        grad_alpha: T.Tensor((alphas,), FP32),
        grad_bias: T.Tensor((mixes,), FP32),
    ):
        with T.Kernel(1) as _:
            mix = T.alloc_shared((SEGMENT, mixes), FP32)
            grads = T.alloc_shared((SEGMENT, mixes), FP32)
            to_bias = T.alloc_shared((mixes,), FP32)
            products = T.alloc_shared((mixes,), FP32)
            to_alpha = T.alloc_shared((alphas,), FP32)
            with T.SimtVF(threads=THREADS):
                for k in T.Parallel(mixes):
                    to_bias[k] = T.float32(0)
                for k in T.Parallel(mixes):
                    products[k] = T.float32(0)
            for segment in T.serial(T.ceildiv(tokens, SEGMENT)):
                T.copy(m[segment * SEGMENT : segment * SEGMENT + SEGMENT, 0:mixes], mix)
                T.copy(grad_logits[segment * SEGMENT : segment * SEGMENT + SEGMENT, 0:mixes], grads)
                with T.SimtVF(threads=THREADS):
                    plain = T.alloc_local((1,), FP32)
                    mixed = T.alloc_local((1,), FP32)
                    thread = T.get_thread_binding()
                    for step in T.serial(T.ceildiv(mixes, THREADS)):
                        if step * THREADS + thread < mixes:
                            plain[0] = T.float32(0)
                            mixed[0] = T.float32(0)
                            for t in T.serial(T.min(SEGMENT, tokens - segment * SEGMENT)):
                                plain[0] = plain[0] + grads[t, step * THREADS + thread]
                                mixed[0] = (
                                    mixed[0] + grads[t, step * THREADS + thread] * mix[t, step * THREADS + thread]
                                )
                            to_bias[step * THREADS + thread] = to_bias[step * THREADS + thread] + plain[0]
                            products[step * THREADS + thread] = products[step * THREADS + thread] + mixed[0]
            with T.SimtVF(threads=THREADS):
                total = T.alloc_local((1,), FP32)
                for group in T.Parallel(alphas):
                    total[0] = T.float32(0)
                    for k in T.serial(mixes):
                        if T.min(k // n, alphas - 1) == group:
                            total[0] = total[0] + products[k]
                    to_alpha[group] = total[0]
            T.copy(to_bias, grad_bias[0:mixes])
            T.copy(to_alpha, grad_alpha[0:alphas])

    return read_small
