"""DeepSeek's TileKernels 2 (tile-kernels, from PyPI) as a rival: its kernels of mHC, called one by one.

It has no projection, forward or back: that is DeepGEMM's, and the two together are a rival of their own. So it has
neither a way back through a read nor a layer.
"""

from __future__ import annotations

from typing import Any

import calls
import deepseek
import peers
import torch
from calls import Call


def contender(subject: Any, *, pdl: bool = False) -> calls.CallContender:
    """Return its kernels for a subject; with ``pdl`` each may begin before the launch before it has ended.

    Raises:
        AbsentError: it is not installed, does not run here, or has nothing of the kind.
    """
    peers.version(peers.TILEKERNELS)
    found = calls.contender("TileKernels 2", subject, MAKERS)
    return calls.switched(found, [set_pdl()]) if pdl else found


def set_pdl() -> Any:
    """Return its function that switches such launches on and off."""
    return peers.module(peers.TILEKERNELS, "tile_kernels.config").set_pdl


def kernels() -> Any:
    """Return the module of the kernels."""
    return peers.module(peers.TILEKERNELS, "tile_kernels.mhc")


def _post(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), kernels()
    given = deepseek.written(inputs)
    out = torch.full_like(given[1], float("nan"))
    return Call(lambda: mhc.mhc_post_fwd(*given, out), lambda out: {"out": out[0]})


def _post_back(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), kernels()
    given = (*deepseek.written(inputs), deepseek.sequence(inputs.grad_out))
    return Call(lambda: mhc.mhc_post_bwd(*given), lambda grads: deepseek.our_written(*grads))


def _sinkhorn(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), kernels()
    logits = deepseek.matrix(inputs.logits)[0]
    out = torch.full_like(logits, float("nan"))
    return Call(
        lambda: mhc.mhc_sinkhorn_fwd(logits, out, inputs.iterations, inputs.eps),
        lambda _: {"matrix": deepseek.our_matrix(out)},
    )


def _sinkhorn_back(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), kernels()
    logits, grad = deepseek.matrix(inputs.logits)[0], deepseek.matrix(inputs.grad_matrix)[0]
    out = torch.full_like(logits, float("nan"))
    return Call(
        lambda: mhc.mhc_sinkhorn_bwd(grad, logits, out, inputs.iterations, inputs.eps),
        lambda _: {"logits": deepseek.our_matrix(out)},
    )


def _expand(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), kernels()
    out = inputs.x.new_full((inputs.x.shape[0], inputs.streams, inputs.x.shape[1]), float("nan"))
    return Call(lambda: mhc.expand_to_mhc_fwd(inputs.x, out), lambda _: {"out": out})


def _expand_back(subject: Any, place: int) -> Call:
    grad, mhc = subject.inputs(place).grad_out, kernels()
    out = torch.full_like(grad[:, 0], float("nan"), memory_format=torch.contiguous_format)
    return Call(lambda: mhc.expand_to_mhc_bwd(grad, out), lambda _: {"x": out})


MAKERS = {
    ("mhc_post", "forward"): _post,
    ("mhc_post", "backward"): _post_back,
    ("sinkhorn", "forward"): _sinkhorn,
    ("sinkhorn", "backward"): _sinkhorn_back,
    ("expand", "forward"): _expand,
    ("expand", "backward"): _expand_back,
}
