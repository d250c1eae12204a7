"""DeepSeek's TileKernels 1 (tile-kernels, from PyPI) as a rival: its functions for autograd, up to a whole layer.

Its products are in TF32. Its way back through a read adds to a gradient of the streams that is there already, which in
a layer is that of the write. A read alone begins with zeros, and the time to write them is a part of it.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import calls
import deepseek
import peers
import torch
from calls import Call, leaf


def contender(subject: Any) -> calls.CallContender:
    """Return its functions for a subject.

    Raises:
        AbsentError: it is not installed, does not run here, or has nothing of the kind.
    """
    peers.version(peers.TILEKERNELS_1)
    return calls.contender("TileKernels 1", subject, MAKERS)


def functions() -> Any:
    """Return the module of the functions.

    It imports a module that TileLang has under another name since 0.1.15. Nothing of mHC uses that module.
    """
    before, now = "tilelang.utils.target", "tilelang.backend.target"
    try:
        importlib.import_module(before)
    except ModuleNotFoundError:
        sys.modules[before] = importlib.import_module(now)
    return peers.module(peers.TILEKERNELS_1, "tile_kernels.modeling.mhc.functional")


def _post(subject: Any, place: int) -> Call:
    given, mhc = deepseek.written(subject.inputs(place)), functions()
    return Call(lambda: mhc.mhc_post(*given), lambda out: {"out": out[0]})


def _post_back(subject: Any, place: int) -> Call:
    inputs = subject.inputs(place)
    leaves = [leaf(tensor) for tensor in deepseek.written(inputs)]
    out, grad = functions().mhc_post(*leaves), deepseek.sequence(inputs.grad_out)
    return Call(
        lambda: torch.autograd.grad([out], leaves, [grad], retain_graph=True),
        lambda grads: deepseek.our_written(*grads),
    )


def _sinkhorn(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), functions()
    logits = deepseek.matrix(inputs.logits)
    return Call(
        lambda: mhc.sinkhorn_normalize(logits, inputs.iterations, inputs.eps),
        lambda out: {"matrix": deepseek.our_matrix(out)},
    )


def _sinkhorn_back(subject: Any, place: int) -> Call:
    inputs = subject.inputs(place)
    logits, grad = leaf(deepseek.matrix(inputs.logits)), deepseek.matrix(inputs.grad_matrix)
    out = functions().sinkhorn_normalize(logits, inputs.iterations, inputs.eps)
    return Call(
        lambda: torch.autograd.grad([out], [logits], [grad], retain_graph=True),
        lambda grads: {"logits": deepseek.our_matrix(grads[0])},
    )


def _read(subject: Any, place: int) -> Call:
    inputs, sinkhorn = subject.inputs(place)
    x, parameters = deepseek.sequence(inputs.x), deepseek.parameters_of(inputs)
    read = _reader(inputs, sinkhorn.iterations, sinkhorn.eps)

    def run() -> Any:
        with torch.no_grad():  # it has one launch for all that follows the projection
            return read(x, *parameters)

    return Call(run, lambda out: deepseek.our_read(out[0], *out[1]))


def _read_back(subject: Any, place: int) -> Call:
    inputs, sinkhorn = subject.inputs(place)
    x, parameters = leaf(deepseek.sequence(inputs.x)), [leaf(given) for given in deepseek.parameters_of(inputs)]
    h_in, (post, comb) = _reader(inputs, sinkhorn.iterations, sinkhorn.eps)(x, *parameters)
    grads = [
        deepseek.sequence(inputs.grad_h_in),
        deepseek.column(inputs.grad_h_post),
        deepseek.matrix(sinkhorn.grad_matrix),
    ]

    def run() -> Any:
        dx = x.untyped_storage().grad_from_mhc_post = torch.zeros_like(x)  # its name for the gradient that it adds to
        return dx, *torch.autograd.grad([h_in, post, comb], parameters, grads, retain_graph=True)

    return Call(run, lambda given: deepseek.our_gradients(*given))


def _layer(subject: Any, place: int) -> Call:
    streams, inputs, grad = subject.tensors(place)
    x, parameters = leaf(deepseek.sequence(streams)), [leaf(given) for given in deepseek.parameters_of(inputs)]
    read, mhc, grad = _reader(inputs, 20, 0.0), functions(), deepseek.sequence(grad)

    def run() -> Any:
        h_in, mixes = read(x, *parameters)
        out = mhc.mhc_post(h_in, x, *mixes)
        return out.detach(), *torch.autograd.grad([out], [x, *parameters], [grad])

    return Call(run, lambda given: {"out": given[0][0], **deepseek.our_gradients(*given[1:])})


def _reader(inputs: Any, iterations: int, eps: float) -> Any:
    """Return its function for a read, with the constants of our operators."""
    mhc = functions()
    options = {"norm_eps": inputs.norm_eps, "pre_eps": inputs.pre_eps, "post_mult_value": inputs.post_scale}
    options |= {"sinkhorn_repeat": iterations, "sinkhorn_eps": eps}
    return lambda x, *parameters: mhc.mhc_pre(x, *parameters, **options)


MAKERS = {
    ("mhc_post", "forward"): _post,
    ("mhc_post", "backward"): _post_back,
    ("sinkhorn", "forward"): _sinkhorn,
    ("sinkhorn", "backward"): _sinkhorn_back,
    ("read", "forward"): _read,
    ("read", "backward"): _read_back,
    ("layer", "step"): _layer,
}
