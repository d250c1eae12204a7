"""FlashInfer (flashinfer-python, from PyPI) as a rival: its write, and its kernel for what follows a projection.

The projection is DeepGEMM's, as FlashInfer has none: it multiplies in TF32. FlashInfer compiles its kernels with nvcc
when they are called first. It wants an eps above zero in Sinkhorn, and gets one that changes no sum.
"""

from __future__ import annotations

from typing import Any

import calls
import deepgemm
import deepseek
import peers
from calls import Call

_LEAST_EPS = 1e-30  # where ours is 0
_PARTS = (16, 8, 4, 2, 1)  # of the projection, that its kernel adds up


def contender(subject: Any) -> calls.CallContender:
    """Return its functions for a subject.

    Raises:
        AbsentError: it is not installed, does not run here, or has nothing of the kind.
    """
    peers.version(peers.FLASHINFER)
    return calls.contender("FlashInfer", subject, MAKERS)


def _functions() -> Any:
    return peers.module(peers.FLASHINFER, "flashinfer.mhc")


def _post(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), _functions()
    given = (inputs.y, inputs.x, inputs.h_post, deepseek.matrix(inputs.h_res)[0])
    return Call(lambda: mhc.mhc_post(*given), lambda out: {"out": out})


def _read(subject: Any, place: int) -> Call:
    (inputs, sinkhorn), mhc = subject.inputs(place), _functions()
    project = deepgemm.Projection(inputs)
    count = next(parts for parts in _PARTS if parts <= project.count)
    project.cut(count)
    sums, squares = (project.sums, project.squares) if count > 1 else (project.sums[0], project.squares[0])
    given = (sums, squares, inputs.x, project.scale, project.base)
    options = {
        "rms_eps": inputs.norm_eps,
        "mhc_pre_eps": inputs.pre_eps,
        "mhc_sinkhorn_eps": sinkhorn.eps or _LEAST_EPS,
        "mhc_post_mult_value": inputs.post_scale,
        "sinkhorn_repeat": sinkhorn.iterations,
        "num_splits": count,
    }
    width = inputs.x[0].numel()

    def run() -> Any:
        project.run()
        return mhc.mhc_pre_big_fuse(*given, width, **options)

    return Call(run, lambda out: deepseek.our_read(out[2], out[0], out[1]))


MAKERS = {("mhc_post", "forward"): _post, ("read", "forward"): _read}
