"""DeepGEMM's projection with the fused kernel of TileKernels 2 behind it: the forward of a read, in two launches.

The projection multiplies in TF32, so its sums are off by 1e-4. It adds the columns up in parts, as many as there are
multiprocessors for each block of 64 tokens; TileKernels' kernel adds the parts.
"""

from __future__ import annotations

from typing import Any

import calls
import deepseek
import peers
import tilekernels
import torch
from calls import Call

_TOKENS, _COLUMNS = 64, 256  # of a block of the projection, and the least of a part


def contender(subject: Any) -> calls.CallContender:
    """Return the two for a subject.

    Raises:
        AbsentError: one of them is not installed, or they have nothing of the kind.
    """
    peers.version(peers.DEEPGEMM)
    peers.version(peers.TILEKERNELS)
    return calls.contender("DeepGEMM with TileKernels 2", subject, MAKERS)


def parts(tokens: int, columns: int, processors: int) -> int:
    """Return in how many parts the columns are added."""
    return max(1, min(processors // -(-tokens // _TOKENS), columns // _COLUMNS))


def _read(subject: Any, place: int) -> Call:
    inputs, sinkhorn = subject.inputs(place)
    gemm = peers.module(peers.DEEPGEMM, "deep_gemm").tf32_hc_prenorm_gemm
    fuse = tilekernels.kernels().mhc_pre_big_fuse_fwd
    x, (fn, scale, base) = inputs.x, deepseek.parameters_of(inputs)
    tokens, streams, hidden = x.shape
    count = parts(tokens, streams * hidden, _processors(x.device))
    sums, squares = scale.new_empty(count, tokens, fn.shape[0]), scale.new_empty(count, tokens)
    nan = float("nan")
    post, comb = scale.new_full((tokens, streams), nan), scale.new_full((tokens, streams * streams), nan)
    h_in = x.new_full((tokens, hidden), nan)
    constants = (inputs.norm_eps, inputs.pre_eps, sinkhorn.eps, inputs.post_scale, sinkhorn.iterations)

    def run() -> None:
        gemm(x.view(tokens, -1), fn, sums, squares, num_splits=count)
        fuse(sums, squares, scale, base, x, post, comb, h_in, *constants, n_splits=count)

    return Call(run, lambda _: deepseek.our_read(h_in, post, comb.view(tokens, streams, streams)))


def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


MAKERS = {("read", "forward"): _read}
