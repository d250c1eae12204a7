"""The script of ``mhc_pre`` for GPUs: blocks of threads, shared memory, a tree of sums.

A block has a few tokens; its threads share out the columns of the flattened streams, hold their sums in registers and
add them up in shared memory, halving their number each time.
"""

# No postponed annotations here: TVM reads those of a script as its parameters.

from typing import Any

from tvm.script import tirx as T

from mhc.backends.tvm.gpu import THREADS, Dialect, Launch, add_up
from mhc.backends.tvm.mhc_pre.tensors import tensors_of
from mhc.ops.mhc_pre import MhcPreSpec

# Sums that a thread holds. They are in registers, of which a thread has at most 255, and the rest needs some too.
_SUMS = 112


def tokens_of_a_block(rows: int) -> int:
    """Return as many tokens as leave room for ``rows`` sums of each; a row of phi is read once for all of them."""
    return max(1, min(4, _SUMS // rows))


def projection(spec: MhcPreSpec, dialect: Dialect, height: int) -> Any:
    """Return a macro ``project(x, phi, gamma, tokens, block, thread, acc)``, the same in both directions.

    It writes the thread's share of (v · gamma) @ phiᵀ to ``acc[t, :mixes]``, and that of Σ v² to ``acc[t, mixes]``.
    Without gamma it does not read its third argument.
    """
    width, mixes, each = spec.width, spec.mixes, dialect.each

    @T.macro
    def project(x, phi, gamma, tokens, block, thread, acc):
        v = T.alloc_buffer((height,), "float32", scope="local")
        weight = T.alloc_buffer((1,), "float32", scope="local")
        for t in each(height):
            for o in each(mixes + 1):
                acc[t, o] = T.float32(0)
        for k in range(-(-width // THREADS)):
            if k * THREADS + thread < width:
                for t in each(height):
                    # A last block that is not full repeats the last token, and does not store it again.
                    v[t] = dialect.wide(spec.dtype, x[T.min(block * height + t, tokens - 1), k * THREADS + thread])
                    acc[t, mixes] = acc[t, mixes] + v[t] * v[t]
                    if spec.gamma:
                        v[t] = v[t] * gamma[k * THREADS + thread]
                for o in each(mixes):
                    weight[0] = phi[o, k * THREADS + thread]
                    for t in each(height):
                        acc[t, o] = acc[t, o] + v[t] * weight[0]

    return project


def forward(spec: MhcPreSpec, dialect: Dialect) -> tuple[Launch, ...]:
    f32, dtype = "float32", dialect.stored(spec.dtype)
    streams, hidden, width, mixes = spec.streams, spec.hidden, spec.width, spec.mixes
    each = dialect.each
    height = tokens_of_a_block(mixes + 1)
    project = projection(spec, dialect, height)
    add = add_up(dialect, height, mixes + 1)
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
    ):
        T.func_attr({"global_symbol": "mhc_pre", "tirx.noalias": True})
        block = T.launch_thread("blockIdx.x", T.truncdiv(tokens + (height - 1), T.int64(height)))
        thread = T.launch_thread("threadIdx.x", THREADS)
        acc = T.alloc_buffer((height, mixes + 1), f32, scope="local")
        r = T.alloc_buffer((1,), f32, scope="local")
        tree = T.alloc_buffer((mixes + 1, THREADS // 2), f32, scope="shared")
        sums = T.alloc_buffer((height, mixes + 1), f32, scope="shared")
        h_pre = T.alloc_buffer((height, streams), f32, scope="shared")

        project(x, phi, gamma, tokens, block, thread, acc)
        add(acc, tree, sums, thread)

        for t in each(height):
            r[0] = T.rsqrt(sums[t, mixes] / T.float32(width) + T.float32(spec.norm_eps))
            if thread < streams:
                h_pre[t, thread] = T.sigmoid(alpha[0] * (sums[t, thread] * r[0]) + bias[thread]) + T.float32(
                    spec.pre_eps
                )
            if block * height + t < tokens:
                if thread < streams:
                    h_post[block * height + t, thread] = T.float32(2) * T.sigmoid(
                        alpha[1] * (sums[t, streams + thread] * r[0]) + bias[streams + thread]
                    )
                if thread < streams * streams:
                    h_res[block * height + t, thread] = (
                        alpha[2] * (sums[t, 2 * streams + thread] * r[0]) + bias[2 * streams + thread]
                    )
        T.tvm_storage_sync("shared")
        for t in each(height):
            if block * height + t < tokens:
                for d in range(-(-hidden // THREADS)):
                    if d * THREADS + thread < hidden:
                        r[0] = T.float32(0)
                        for i in each(streams):
                            r[0] = r[0] + h_pre[t, i] * dialect.wide(
                                spec.dtype, x[block * height + t, i * hidden + d * THREADS + thread]
                            )
                        h_in[block * height + t, d * THREADS + thread] = dialect.narrow(spec.dtype, r[0])

    return (Launch(mhc_pre, lambda tokens: (-(-tokens // height), 1)),)
