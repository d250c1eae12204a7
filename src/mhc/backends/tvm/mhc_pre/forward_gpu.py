"""The script of ``mhc_pre`` and ``mhc_head`` for GPUs: blocks of threads, shared memory, a tree of sums.

A block has a few tokens; its threads share out the columns of the flattened streams, hold their sums in registers and
add them up in shared memory, halving their number each time. The rows of phi come in groups of at most ``_ROWS``, one
pass over the block's tokens for each: registers, shared memory and code stay the same for any number of streams.
"""

# No postponed annotations here: TVM reads a script's annotations as its parameters.

from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch, add_up
from mhc.backends.tvm.mhc_pre.tensors import Spec, operator, post_scale, tensors_of, writes_back

# Sums that a thread holds. They are in registers. A thread has at most 255 registers, and the rest needs some too.
_SUMS = 112

# Rows of phi in a group, at most: with the sum of squares, there is room for the sums of four tokens.
_ROWS = 27


def tokens_of_a_block(rows: int) -> int:
    """Return as many tokens as leave room for ``rows`` sums of each; a row of phi is read once for all of them."""
    return max(1, min(4, _SUMS // rows))


def groups_of(mixes: int, most: int) -> tuple[int, int]:
    """Cut the rows of phi into groups of at most ``most``: return their number, and the rows of one.

    The last group can reach beyond the rows.
    """
    groups = -(-mixes // most)
    return groups, -(-mixes // groups)


def _projection(spec: Spec, dialect: Dialect, height: int, rows: int) -> Any:
    """Return a macro ``project(x, phi, gamma, tokens, block, thread, acc, first)``.

    It writes the thread's share of (v · gamma) @ phi[first + o]ᵀ to ``acc[t, o]`` for ``rows`` rows of phi, and of
    Σ v² to ``acc[t, rows]``. A row beyond the last repeats that one. Without gamma the third argument is not read.
    """
    width, mixes, each = spec.width, spec.mixes, dialect.each

    @T.macro
    def project(x, phi, gamma, tokens, block, thread, acc, first):
        v = T.alloc_buffer((height,), "float32", scope="local")
        weight = T.alloc_buffer((1,), "float32", scope="local")
        for t in each(height):
            for o in each(rows + 1):
                acc[t, o] = T.float32(0)
        for k in range(-(-width // THREADS)):
            if k * THREADS + thread < width:
                for t in each(height):
                    # A last block that is not full repeats the last token, and does not store it again.
                    v[t] = dialect.wide(spec.dtype, x[T.min(block * height + t, tokens - 1), k * THREADS + thread])
                    acc[t, rows] = acc[t, rows] + v[t] * v[t]
                    if spec.gamma:
                        v[t] = v[t] * gamma[k * THREADS + thread]
                for o in each(rows):
                    weight[0] = phi[T.min(first + o, mixes - 1), k * THREADS + thread]
                    for t in each(height):
                        acc[t, o] = acc[t, o] + v[t] * weight[0]

    return project


def forward(spec: Spec, dialect: Dialect) -> tuple[Launch, ...]:
    f32, dtype, name = "float32", dialect.stored(spec.dtype), operator(spec)
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    coefficients, scale = writes_back(spec), post_scale(spec)
    each = dialect.each
    groups, rows = groups_of(mixes, _ROWS)
    height = tokens_of_a_block(rows + 1)
    project = _projection(spec, dialect, height, rows)
    add = add_up(dialect, height, rows + 1)
    square = groups * rows  # where the sum of squares is: the last group's comes last
    tensors = tensors_of(spec, dtype)
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
        T.func_attr({"global_symbol": name, "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        acc = T.alloc_buffer((height, rows + 1), f32, scope="local")
        norm = T.alloc_buffer((1,), f32, scope="local")
        mix = T.alloc_buffer((1,), f32, scope="local")
        tree = T.alloc_buffer((rows + 1, THREADS // 2), f32, scope="shared")
        sums = T.alloc_buffer((height, square + 1), f32, scope="shared")
        h_pre = T.alloc_buffer((height, streams), f32, scope="shared")

        for group in T.serial(groups):
            project(x, phi, gamma, tokens, block, thread, acc, group * rows)
            # The next group's first sum takes the place of this one's sum of squares.
            add(acc, tree, sums, thread, group * rows)

        for t in each(height):
            norm[0] = T.rsqrt(sums[t, square] / T.float32(width) + T.float32(spec.norm_eps))
            if thread < streams:
                h_pre[t, thread] = T.sigmoid(alpha[0] * (sums[t, thread] * norm[0]) + bias[thread]) + T.float32(
                    spec.pre_eps
                )
            if block * height + t < tokens:
                if thread == 0:
                    r[block * height + t] = norm[0]
                for k in range(-(-mixes // THREADS)):
                    row: T.let = k * THREADS + thread
                    if row < mixes:
                        mix[0] = sums[t, row] * norm[0]
                        m[block * height + t, row] = mix[0]
                        if coefficients:
                            if row >= 2 * streams:
                                h_res[block * height + t, row - 2 * streams] = alpha[2] * mix[0] + bias[row]
                            elif row >= streams:
                                h_post[block * height + t, row - streams] = T.float32(scale) * T.sigmoid(
                                    alpha[1] * mix[0] + bias[row]
                                )
        T.tvm_storage_sync("shared")
        for t in each(height):
            if block * height + t < tokens:
                for d in range(-(-hidden // THREADS)):
                    if d * THREADS + thread < hidden:
                        norm[0] = T.float32(0)
                        for i in each(streams):
                            norm[0] = norm[0] + h_pre[t, i] * dialect.wide(
                                spec.dtype, x[block * height + t, i * hidden + d * THREADS + thread]
                            )
                        h_in[block * height + t, d * THREADS + thread] = dialect.narrow(spec.dtype, norm[0])

    return (Launch(mhc_pre, lambda tokens: (-(-tokens // height), 1)),)
