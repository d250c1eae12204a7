"""NVIDIA's TileGym (tilegym, from PyPI) as a rival: its write and its Sinkhorn in cuTile, forward alone.

Its projection is no operator of ours: nothing of it makes the layer's input. The matrix of its Sinkhorn is the
transpose of ours; that of its write is ours.
"""

from __future__ import annotations

from typing import Any

import calls
import deepseek
import peers
import torch
from calls import Call

from kernel_matrix.tools.bench.inside.protocol import AbsentError

_TILE = 1024  # columns of its write; it leaves out the rest


def contender(subject: Any) -> calls.CallContender:
    """Return its functions for a subject.

    Raises:
        AbsentError: it is not installed, does not run here, or has nothing of the kind.
    """
    peers.version(peers.TILEGYM)
    if subject.op == "mhc_post" and subject.axes["hidden"] % _TILE:
        raise AbsentError(f"TileGym's mhc_apply_residual leaves out the columns behind the last {_TILE}")
    return calls.contender("TileGym", subject, MAKERS)


def _functions() -> Any:
    return peers.module(peers.TILEGYM, "tilegym.ops.cutile.experimental.mhc")


def _coefficients(matrix: torch.Tensor, h_post: torch.Tensor | None = None) -> torch.Tensor:
    """Return the rows of its kernels: h_pre, which neither of these reads, h_post and the matrix."""
    tokens, streams, _ = matrix.shape
    rows = matrix.new_zeros(tokens, 2 * streams + streams * streams)
    rows[:, 2 * streams :] = matrix.flatten(1)
    if h_post is not None:
        rows[:, streams : 2 * streams] = h_post
    return rows


def _post(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), _functions()
    given = inputs.x.flatten(1), inputs.y, _coefficients(inputs.h_res, inputs.h_post)
    return Call(lambda: mhc.mhc_apply_residual(*given, inputs.x.shape[1]), lambda out: {"out": out.view_as(inputs.x)})


def _sinkhorn(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), _functions()
    streams = inputs.logits.shape[-1]
    rows = _coefficients(deepseek.matrix(inputs.logits)[0])  # in place: the runs behind the first begin with its result
    return Call(
        lambda: mhc.mhc_sinkhorn(rows, streams),
        lambda out: {"matrix": deepseek.our_matrix(out[:, 2 * streams :].unflatten(1, (streams, streams)))},
    )


MAKERS = {("mhc_post", "forward"): _post, ("sinkhorn", "forward"): _sinkhorn}
