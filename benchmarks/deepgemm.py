"""DeepGEMM's projection with the fused kernel of TileKernels 2 behind it: the forward of a read, in two launches.

The projection multiplies in TF32, so its sums are off by 1e-4. It adds the columns up in parts, as many as there are
multiprocessors for each block of 64 tokens; TileKernels' kernel adds the parts.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import Any

import calls
import deepseek
import peers
import tilekernels
import torch
from calls import Call

_TOKENS, _COLUMNS = 64, 256  # of a block of the projection, and the least of a part


def contender(subject: Any, *, pdl: bool = False) -> calls.CallContender:
    """Return the two for a subject; with ``pdl`` each launch may begin before the one before it has ended.

    Raises:
        AbsentError: one of them is not installed, or they have nothing of the kind.
    """
    peers.version(peers.DEEPGEMM)
    peers.version(peers.TILEKERNELS)
    found = calls.contender("DeepGEMM with TileKernels 2", subject, MAKERS)
    return calls.switched(found, [_module().set_pdl, tilekernels.set_pdl()]) if pdl else found


def parts(tokens: int, columns: int, processors: int) -> int:
    """Return in how many parts the columns are added."""
    return max(1, min(processors // -(-tokens // _TOKENS), columns // _COLUMNS))


class Projection:
    """The launch of the projection of a read: sums and sums of squares, in ``count`` parts."""

    def __init__(self, inputs: Any) -> None:
        self._gemm, self._x = _module().tf32_hc_prenorm_gemm, inputs.x.view(inputs.x.shape[0], -1)
        self._fn, self.scale, self.base = deepseek.parameters_of(inputs)
        self.cut(parts(*self._x.shape, _processors(self._x.device)))

    def cut(self, count: int) -> None:
        """Add the columns up in so many parts."""
        tokens = self._x.shape[0]
        self.count = count
        self.sums = self.scale.new_empty(count, tokens, self._fn.shape[0])
        self.squares = self.scale.new_empty(count, tokens)

    def run(self) -> None:
        """Project."""
        self._gemm(self._x, self._fn, self.sums, self.squares, num_splits=self.count)


def _read(subject: Any, place: int) -> Call:
    inputs, sinkhorn = subject.inputs(place)
    project, fuse = Projection(inputs), tilekernels.kernels().mhc_pre_big_fuse_fwd
    x, scale = inputs.x, project.scale
    tokens, streams, hidden = x.shape
    nan = float("nan")
    post, comb = scale.new_full((tokens, streams), nan), scale.new_full((tokens, streams * streams), nan)
    h_in = x.new_full((tokens, hidden), nan)
    given = (project.sums, project.squares, scale, project.base, x, post, comb, h_in)
    constants = (inputs.norm_eps, inputs.pre_eps, sinkhorn.eps, inputs.post_scale, sinkhorn.iterations)

    def run() -> None:
        project.run()
        fuse(*given, *constants, n_splits=project.count)

    return Call(run, lambda _: deepseek.our_read(h_in, post, comb.view(tokens, streams, streams)))


def _module() -> Any:
    with contextlib.suppress(ImportError):
        importlib.import_module("tvm_ffi")  # since its version 0.2 it needs this one's library, and does not load it
    return peers.module(peers.DEEPGEMM, "deep_gemm")


def _processors(device: torch.device) -> int:
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


MAKERS = {("read", "forward"): _read}
