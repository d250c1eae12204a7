"""The kernel of ``mhc_pre``, and of ``mhc_head``, which has no coefficients that write back: a core has one token."""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

import tilelang.ascend.language as T

from mhc.backends.tilelang_ascend.tiles import DTYPES, FP32, PARTS, THREADS, added, columns_of


def read(spec: Any) -> Any:
    """Return the forward as a prim_func. What a specialisation does not have is a parameter all the same."""
    n, hidden, mixes, dtype = spec.streams, spec.hidden, spec.mixes, DTYPES[spec.dtype]
    width, tokens = columns_of(hidden, mixes), T.dynamic("tokens")
    blocks, writes_back, gamma_given = hidden // width, mixes > n, spec.gamma
    alphas, post_scale = 3 if writes_back else 1, getattr(spec, "post_scale", 1.0)

    @T.prim_func
    def read(
        x: T.Tensor((tokens, n * hidden), dtype),
        phi: T.Tensor((mixes, n * hidden), FP32),
        alpha: T.Tensor((alphas,), FP32),
        bias: T.Tensor((mixes,), FP32),
        gamma: T.Tensor((n * hidden,), FP32),
        h_in: T.Tensor((tokens, hidden), dtype),
        h_post: T.Tensor((tokens, n), FP32),
        h_res: T.Tensor((tokens, n * n), FP32),
        m: T.Tensor((tokens, mixes), FP32),
        r: T.Tensor((tokens,), FP32),
    ):
        with T.Kernel(tokens) as token:
            factors = T.alloc_shared((alphas,), FP32)
            biases = T.alloc_shared((mixes,), FP32)
            tile = T.alloc_shared((width,), dtype)
            weights = T.alloc_shared((width,), FP32)
            rows = T.alloc_shared((mixes, width), FP32)
            values = T.alloc_shared((width,), FP32)
            part_of_sum = T.alloc_shared((mixes, PARTS), FP32)
            squares = T.alloc_shared((THREADS,), FP32)
            scale = T.alloc_shared((1,), FP32)
            mix = T.alloc_shared((mixes,), FP32)
            gates = T.alloc_shared((n,), FP32)
            post = T.alloc_shared((n,), FP32)
            res = T.alloc_shared((n * n,), FP32)
            streams = T.alloc_shared((n, width), dtype)
            result = T.alloc_shared((width,), dtype)
            T.copy(alpha[0:alphas], factors)
            T.copy(bias[0:mixes], biases)
            with T.SimtVF(threads=THREADS):
                for k, part in T.Parallel(mixes, PARTS):
                    part_of_sum[k, part] = T.float32(0)
                for lane in T.Parallel(THREADS):
                    squares[lane] = T.float32(0)
            for block in T.serial(n * blocks):
                T.copy(x[token, block * width : block * width + width], tile)
                T.copy(phi[0:mixes, block * width : block * width + width], rows)
                if gamma_given:
                    T.copy(gamma[block * width : block * width + width], weights)
                with T.SimtVF(threads=THREADS):
                    own = T.alloc_local((1,), FP32)
                    lane = T.get_thread_binding()
                    own[0] = T.float32(0)
                    for c in T.serial(T.ceildiv(width, THREADS)):
                        if c * THREADS + lane < width:
                            own[0] = own[0] + T.cast(tile[c * THREADS + lane], FP32) * T.cast(
                                tile[c * THREADS + lane], FP32
                            )
                            if gamma_given:
                                values[c * THREADS + lane] = (
                                    T.cast(tile[c * THREADS + lane], FP32) * weights[c * THREADS + lane]
                                )
                            else:
                                values[c * THREADS + lane] = T.cast(tile[c * THREADS + lane], FP32)
                    squares[lane] = squares[lane] + own[0]
                with T.SimtVF(threads=THREADS):
                    acc = T.alloc_local((1,), FP32)
                    thread = T.get_thread_binding()
                    for step in T.serial(T.ceildiv(mixes * PARTS, THREADS)):
                        if step * THREADS + thread < mixes * PARTS:
                            k = (step * THREADS + thread) // PARTS
                            part = (step * THREADS + thread) % PARTS
                            acc[0] = T.float32(0)
                            for c in T.serial(T.ceildiv(width, PARTS)):
                                if c * PARTS + part < width:
                                    acc[0] = acc[0] + rows[k, c * PARTS + part] * values[c * PARTS + part]
                            part_of_sum[k, part] = part_of_sum[k, part] + acc[0]
            with T.SimtVF(threads=THREADS):
                total = T.alloc_local((1,), FP32)
                for _ in T.Parallel(1):
                    total[0] = T.float32(0)
                    for lane in T.serial(THREADS):
                        total[0] = total[0] + squares[lane]
                    scale[0] = T.float32(1) / T.sqrt(total[0] / T.float32(n * hidden) + T.float32(spec.norm_eps))
            with T.SimtVF(threads=THREADS):
                for k in T.Parallel(mixes):
                    mix[k] = added(lambda at: part_of_sum[k, at], PARTS) * scale[0]
            with T.SimtVF(threads=THREADS):
                for i in T.Parallel(n):
                    gates[i] = T.float32(1) / (T.float32(1) + T.exp(-(factors[0] * mix[i] + biases[i]))) + T.float32(
                        spec.pre_eps
                    )
                if writes_back:
                    for i in T.Parallel(n):
                        post[i] = T.float32(post_scale) / (
                            T.float32(1) + T.exp(-(factors[1] * mix[n + i] + biases[n + i]))
                        )
                    for entry in T.Parallel(n * n):
                        res[entry] = factors[2] * mix[2 * n + entry] + biases[2 * n + entry]
            T.copy(mix, m[token, 0:mixes])
            T.copy(scale, r[token : token + 1])
            if writes_back:
                T.copy(post, h_post[token, 0:n])
                T.copy(res, h_res[token, 0 : n * n])
            for block in T.serial(blocks):
                for i in T.serial(n):
                    T.copy(
                        x[token, i * hidden + block * width : i * hidden + block * width + width], streams[i, 0:width]
                    )
                with T.SimtVF(threads=THREADS):
                    for d in T.Parallel(width):
                        result[d] = T.cast(added(lambda at: gates[at] * T.cast(streams[at, d], FP32), n), dtype)
                T.copy(result, h_in[token, block * width : block * width + width])

    return read
