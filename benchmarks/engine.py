"""NVIDIA's Transformer Engine (transformer-engine, from PyPI) as a rival: its functions of mHC in Triton, for autograd.

Their streams are the innermost dimension, so tensors are brought to that layout outside of what is timed. Their matrix
is the transpose of ours, their products are in TF32, and nothing is added to h_pre. A sum over all columns is in a
fixed order. Their switch for atomic additions splits it, and a run then does not repeat its bits.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import calls
import deepseek
import golden
import peers
import torch
from calls import Call, leaf


def contender(subject: Any, atomic: bool = False) -> calls.CallContender:
    """Return its functions for a subject, with atomic additions where they are asked for.

    Raises:
        AbsentError: it is not installed, does not run here, or has nothing of the kind.
    """
    peers.version(peers.TRANSFORMER_ENGINE)
    return calls.contender("Transformer Engine", subject, ATOMIC if atomic else MAKERS)


def _functions() -> Any:
    os.environ.setdefault("TRITON_CACHE_AUTOTUNING", "1")  # asked at import: processes share what it tuned
    return peers.module(peers.TRANSFORMER_ENGINE, "transformer_engine.pytorch.triton.mhc")


def _streams(x: torch.Tensor) -> torch.Tensor:
    """Return streams in their layout [tokens, 1, hidden, n]."""
    return x.mT.contiguous().unsqueeze(1)


def _ours(x: torch.Tensor) -> torch.Tensor:
    return x[:, 0].mT


def _columns(phi: torch.Tensor, streams: int) -> torch.Tensor:
    """Return phi with its columns in the order of their streams; of theirs, with ``hidden`` for streams, ours."""
    return phi.unflatten(1, (streams, -1)).mT.flatten(1).contiguous()


def _parameters(inputs: Any) -> list[torch.Tensor]:
    fn, scale, base = deepseek.parameters_of(inputs)
    return [_columns(fn, inputs.x.shape[1]), scale, base.unsqueeze(0)]


def _gradients(x: torch.Tensor, fn: torch.Tensor, scale: torch.Tensor, base: torch.Tensor) -> golden.Outputs:
    given = deepseek.our_gradients(_ours(x).unsqueeze(0), _columns(fn, x.shape[2]), scale, base[0])
    return given | {"x": _ours(x)}


def _written(inputs: Any) -> list[torch.Tensor]:
    """Return the layer's output, the coefficients and the streams, in the order of their function but for the bias."""
    return [
        inputs.y.unsqueeze(1),
        inputs.h_post.unsqueeze(1),
        _streams(inputs.x),
        deepseek.matrix(inputs.h_res)[0].unsqueeze(1),
    ]


def _write(y: torch.Tensor, post: torch.Tensor, x: torch.Tensor, comb: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = _functions().mhc_fused_expand_combine(y, None, post, x, comb, x.shape[-1])
    return out


def _post(subject: Any, place: int) -> Call:
    given = _written(subject.inputs(place))
    return Call(lambda: _write(*given), lambda out: {"out": _ours(out)})


def _post_back(subject: Any, place: int) -> Call:
    inputs = subject.inputs(place)
    leaves = [leaf(tensor) for tensor in _written(inputs)]
    out, grad = _write(*leaves), _streams(inputs.grad_out)

    def outputs(grads: Any) -> golden.Outputs:
        y, post, x, comb = grads
        return {"x": _ours(x), "y": y[:, 0], "h_post": post[:, 0], "h_res": deepseek.our_matrix(comb)}

    return Call(lambda: torch.autograd.grad([out], leaves, [grad], retain_graph=True), outputs)


def _sinkhorn(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), _functions()
    logits = deepseek.matrix(inputs.logits)[0].unsqueeze(1)
    return Call(
        lambda: mhc.mhc_fused_sinkhorn(logits, iters=inputs.iterations),
        lambda out: {"matrix": deepseek.our_matrix(out)},
    )


def _sinkhorn_back(subject: Any, place: int) -> Call:
    inputs, mhc = subject.inputs(place), _functions()
    logits, grad = (leaf(deepseek.matrix(given)[0].unsqueeze(1)) for given in (inputs.logits, inputs.grad_matrix))
    out = mhc.mhc_fused_sinkhorn(logits, iters=inputs.iterations)
    return Call(
        lambda: torch.autograd.grad([out], [logits], [grad], retain_graph=True),
        lambda grads: {"logits": deepseek.our_matrix(grads[0])},
    )


def _read(subject: Any, place: int, use_split_k: bool = False) -> Call:
    inputs, _ = subject.inputs(place)
    x, parameters, mhc = _streams(inputs.x), _parameters(inputs), _functions()
    return Call(
        lambda: mhc.mhc_generate_mix_and_aggregate(x, *parameters, use_split_k=use_split_k),
        lambda out: deepseek.our_read(*out),
    )


def _read_back(subject: Any, place: int, use_split_k: bool = False) -> Call:
    inputs, sinkhorn = subject.inputs(place)
    leaves = [leaf(given) for given in (_streams(inputs.x), *_parameters(inputs))]
    out = _functions().mhc_generate_mix_and_aggregate(*leaves, use_split_k=use_split_k)
    grads = [
        inputs.grad_h_in.unsqueeze(1),
        inputs.grad_h_post.unsqueeze(1),
        deepseek.matrix(sinkhorn.grad_matrix)[0].unsqueeze(1),
    ]
    return Call(
        lambda: torch.autograd.grad(list(out), leaves, grads, retain_graph=True), lambda given: _gradients(*given)
    )


def _layer(subject: Any, place: int, use_split_k: bool = False) -> Call:
    streams, inputs, grad = subject.tensors(place)
    leaves = [leaf(given) for given in (_streams(streams), *_parameters(inputs))]
    grad, mhc = _streams(grad), _functions()

    def run() -> Any:
        h_in, post, comb = mhc.mhc_generate_mix_and_aggregate(*leaves, use_split_k=use_split_k)
        out = _write(h_in, post, leaves[0], comb)
        return out.detach(), *torch.autograd.grad([out], leaves, [grad])

    return Call(run, lambda given: {"out": _ours(given[0]), **_gradients(*given[1:])})


MAKERS: Mapping[tuple[str, str], calls.Maker] = {
    ("mhc_post", "forward"): _post,
    ("mhc_post", "backward"): _post_back,
    ("sinkhorn", "forward"): _sinkhorn,
    ("sinkhorn", "backward"): _sinkhorn_back,
    ("read", "forward"): _read,
    ("read", "backward"): _read_back,
    ("layer", "step"): _layer,
}
ATOMIC: Mapping[tuple[str, str], calls.Maker] = {
    of: functools.partial(make, use_split_k=True) for of, make in MAKERS.items() if of[0] in ("read", "layer")
}
