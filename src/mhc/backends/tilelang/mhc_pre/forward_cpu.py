"""The CPU kernel of ``mhc_pre`` and ``mhc_head``, for TileLang's C target.

It has serial loops, which a C++ compiler turns into vectors.
"""

# No postponed annotations here: TileLang reads a kernel's annotations as values.

from typing import Any

from mhc.backends.tilelang.compat import CPU_LAUNCH
from mhc.backends.tilelang.compat import cpu_language as T
from mhc.backends.tilelang.cpu import FP32, LINE_BYTES, STORAGE, fetch, narrow, widen
from mhc.backends.tilelang.mhc_pre.factors import mixes_of, post_scale_of, writes_back
from mhc.backends.tilelang.mhc_pre.tensors import tensors_of
from mhc.ops.read import ReadSpec

GROUP = 4  # tokens whose partial sums advance together
TILE = 4 * GROUP  # tokens that share one widened piece of x
PIECE = 512  # elements of that piece; with TILE it fits the first cache
UNROLL = 4  # vectors along the width between two writes of the partial sums


def add_width(spec: ReadSpec, lanes: int) -> tuple[int, Any]:
    """Return how many rows of phi advance together, and a macro.

    The macro computes, by lane, the products with phi's rows, and the squares, of a tile of tokens.
    """
    width, mixes, weighted, dtype = spec.width, mixes_of(spec), spec.gamma, spec.dtype
    # With 8 lanes a CPU has 16 registers: the sums of four tokens with four rows of phi would take all of them.
    sizes = (3, 4, 5, 2, 1) if lanes <= 8 else (4, 3, 5, 2, 1)
    rows = next(size for size in sizes if mixes % size == 0)
    steps = width // (UNROLL * lanes)
    steps_of_piece = PIECE // (UNROLL * lanes)
    tail = steps * UNROLL * lanes  # where whole steps end
    tail_vectors = (width - tail) // lanes
    rest = tail + tail_vectors * lanes  # where whole vectors end
    line = LINE_BYTES // dtype.itemsize

    @T.macro
    def add_products(x, phi, gamma, tokens, block, piece, squares, of_piece, sums, acc, wide):
        for m in T.serial(TILE):
            for v in T.serial(lanes):
                squares[m, v] = T.float32(0)
            for o in T.serial(mixes):
                for v in T.serial(lanes):
                    sums[m, o, v] = T.float32(0)

        for p in T.serial(T.ceildiv(steps, steps_of_piece)):
            # Past the last token, read it again: a group is always whole.
            for g in T.serial(T.min(TILE // GROUP, T.ceildiv(tokens - block * TILE, GROUP))):
                for m in T.serial(GROUP):
                    for j in T.serial(T.min(steps_of_piece, steps - p * steps_of_piece) * UNROLL * lanes):
                        piece[g * GROUP + m, j] = widen(
                            x[T.min(block * TILE + g * GROUP + m, tokens - 1), p * PIECE + j], dtype
                        )
                    # The pieces of a row are too short for a CPU to see what comes next.
                    for j in T.serial(PIECE // line):
                        fetch(
                            x[
                                T.min(block * TILE + g * GROUP + m, tokens - 1),
                                T.min((p + 1) * PIECE + j * line, width - 1),
                            ],
                            dtype,
                        )
                # Squares of bf16 are multiples of something coarse, and a long sum of them rounds more down than up: so
                # each piece has a sum of its own.
                for m in T.serial(GROUP):
                    for v in T.serial(lanes):
                        of_piece[m, v] = T.float32(0)
                for k in T.serial(T.min(steps_of_piece, steps - p * steps_of_piece)):
                    for v in T.serial(lanes):
                        for u in T.unroll(UNROLL, explicit=True):
                            for m in T.unroll(GROUP, explicit=True):
                                of_piece[m, v] = (
                                    of_piece[m, v]
                                    + piece[g * GROUP + m, (k * UNROLL + u) * lanes + v]
                                    * piece[g * GROUP + m, (k * UNROLL + u) * lanes + v]
                                )
                for m in T.serial(GROUP):
                    for v in T.serial(lanes):
                        squares[g * GROUP + m, v] = squares[g * GROUP + m, v] + of_piece[m, v]
                if weighted:
                    for m in T.serial(GROUP):
                        for j in T.serial(T.min(steps_of_piece, steps - p * steps_of_piece) * UNROLL * lanes):
                            piece[g * GROUP + m, j] = piece[g * GROUP + m, j] * gamma[p * PIECE + j]
            for q in T.serial(mixes // rows):
                for g in T.serial(T.min(TILE // GROUP, T.ceildiv(tokens - block * TILE, GROUP))):
                    for m in T.unroll(GROUP, explicit=True):
                        for o in T.unroll(rows, explicit=True):
                            for v in T.serial(lanes):
                                acc[m, o, v] = sums[g * GROUP + m, q * rows + o, v]
                    for k in T.serial(T.min(steps_of_piece, steps - p * steps_of_piece)):
                        # All products of a lane in one body, which a compiler needs to keep the sums in registers.
                        for v in T.serial(lanes):
                            for u in T.unroll(UNROLL, explicit=True):
                                for m in T.unroll(GROUP, explicit=True):
                                    for o in T.unroll(rows, explicit=True):
                                        acc[m, o, v] = (
                                            acc[m, o, v]
                                            + piece[g * GROUP + m, (k * UNROLL + u) * lanes + v]
                                            * phi[q * rows + o, p * PIECE + (k * UNROLL + u) * lanes + v]
                                        )
                    for m in T.unroll(GROUP, explicit=True):
                        for o in T.unroll(rows, explicit=True):
                            for v in T.serial(lanes):
                                sums[g * GROUP + m, q * rows + o, v] = acc[m, o, v]

        for m in T.serial(T.min(TILE, tokens - block * TILE)):
            # The vectors that do not make a whole step, then the elements that do not make a whole vector.
            for k in T.serial(tail_vectors):
                for v in T.serial(lanes):
                    wide[v] = widen(x[block * TILE + m, tail + k * lanes + v], dtype)
                    squares[m, v] = squares[m, v] + wide[v] * wide[v]
                    if weighted:
                        wide[v] = wide[v] * gamma[tail + k * lanes + v]
                for o in T.serial(mixes):
                    for v in T.serial(lanes):
                        sums[m, o, v] = sums[m, o, v] + wide[v] * phi[o, tail + k * lanes + v]
            for j in T.serial(width - rest):
                wide[0] = widen(x[block * TILE + m, rest + j], dtype)
                squares[m, j] = squares[m, j] + wide[0] * wide[0]
                if weighted:
                    wide[0] = wide[0] * gamma[rest + j]
                for o in T.serial(mixes):
                    sums[m, o, j] = sums[m, o, j] + wide[0] * phi[o, rest + j]

    return rows, add_products


def forward(spec: ReadSpec, lanes: int) -> Any:
    """Return ``mhc_pre`` as a prim_func over x [tokens, n·hidden] and gamma [n·hidden] ([1], unread, if None).

    ``lanes`` is how many independent sums run along the width: what lets a compiler vectorise them without reordering
    an addition. bf16 and fp16 tensors are their bits. The sums of a token are its own and in an order that depends on
    nothing but ``spec`` and ``lanes``, so tokens can be given to any number of calls.
    """
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, mixes_of(spec)
    dtype, norm_eps, pre_eps = spec.dtype, spec.norm_eps, spec.pre_eps
    back, post_scale = writes_back(spec), post_scale_of(spec)
    _, stored = STORAGE[dtype]
    rows, add_products = add_width(spec, lanes)
    columns, last_column = hidden // lanes, hidden // lanes * lanes
    tensors = tensors_of(spec, stored, T)
    tokens = tensors.tokens

    @T.prim_func
    def mhc_pre(
        x: tensors.x,
        phi: tensors.phi,
        alpha: tensors.alpha,
        bias: tensors.bias,
        gamma: tensors.gamma,
        h_in: tensors.h_in,
        h_post: tensors.h_post,
        h_res: tensors.h_res,
        m: tensors.m,
        r: tensors.r,
    ):
        with T.Kernel(T.ceildiv(tokens, TILE), **CPU_LAUNCH) as block:
            piece = T.alloc_local((TILE, PIECE), FP32)
            squares = T.alloc_local((TILE, lanes), FP32)
            of_piece = T.alloc_local((GROUP, lanes), FP32)
            sums = T.alloc_local((TILE, mixes, lanes), FP32)
            acc = T.alloc_local((GROUP, rows, lanes), FP32)
            wide = T.alloc_local((lanes,), FP32)
            mixed = T.alloc_local((mixes,), FP32)
            h_pre = T.alloc_local((streams,), FP32)
            scale = T.alloc_local((1,), FP32)

            add_products(x, phi, gamma, tokens, block, piece, squares, of_piece, sums, acc, wide)

            for t in T.serial(T.min(TILE, tokens - block * TILE)):
                scale[0] = T.float32(0)
                for v in T.serial(lanes):
                    scale[0] = scale[0] + squares[t, v]
                scale[0] = T.float32(1) / T.sqrt(scale[0] / T.float32(width) + T.float32(norm_eps))
                r[block * TILE + t] = scale[0]
                for o in T.serial(mixes):
                    mixed[o] = T.float32(0)
                    for v in T.serial(lanes):
                        mixed[o] = mixed[o] + sums[t, o, v]
                    mixed[o] = mixed[o] * scale[0]
                    m[block * TILE + t, o] = mixed[o]
                for o in T.serial(streams):
                    h_pre[o] = T.float32(1) / (T.float32(1) + T.exp(-(alpha[0] * mixed[o] + bias[o]))) + (
                        T.float32(pre_eps)
                    )
                if back:
                    for o in T.serial(streams):
                        h_post[block * TILE + t, o] = T.float32(post_scale) / (
                            T.float32(1) + T.exp(-(alpha[1] * mixed[streams + o] + bias[streams + o]))
                        )
                    for o in T.serial(streams * streams):
                        h_res[block * TILE + t, o] = alpha[2] * mixed[2 * streams + o] + bias[2 * streams + o]

                for c in T.serial(columns):
                    for v in T.serial(lanes):
                        wide[v] = T.float32(0)
                    for i in T.unroll(streams, explicit=True):
                        for v in T.serial(lanes):
                            wide[v] = wide[v] + h_pre[i] * widen(x[block * TILE + t, i * hidden + c * lanes + v], dtype)
                    for v in T.serial(lanes):
                        h_in[block * TILE + t, c * lanes + v] = narrow(wide[v], dtype)
                for j in T.serial(hidden - last_column):
                    wide[0] = T.float32(0)
                    for i in T.serial(streams):
                        wide[0] = wide[0] + h_pre[i] * widen(x[block * TILE + t, i * hidden + last_column + j], dtype)
                    h_in[block * TILE + t, last_column + j] = narrow(wide[0], dtype)

    return mhc_pre
