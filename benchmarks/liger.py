"""Liger's mHC kernels (liger-kernel, from PyPI) as a rival: its post and read, in both directions, and its layer.

Its phi is transposed and it has no gamma. Its Sinkhorn is DeepSeek's form of the transposed matrix, whose result is
near that of the paper's form once the iterations have converged; how far off it is stands beside its times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import peers
import torch
from calls import Call, CallContender, leaf

from kernel_matrix.tools.bench.inside.protocol import AbsentError

_OPTIONS = {"allow_fp32": True, "tmax": 20, "rms_eps": 1e-6, "pre_eps": 1e-6, "sinkhorn_eps": 1e-6, "post_mult": 2.0}
Tensors = dict[str, torch.Tensor]


def contender(subject: Any) -> CallContender:
    """Return Liger's kernels for a subject. Backward, autograd goes back through a forward that was run before.

    Raises:
        AbsentError: it is not installed, does not run here, or has nothing of the kind.
    """
    peers.version(peers.LIGER)
    if subject.device.type == "cpu":
        raise AbsentError("Liger's kernels need a GPU")
    if subject.axes.get("gamma"):
        raise AbsentError("Liger has no gamma")
    made = {"mhc_post": _post, "read": _read, "layer": _layer}.get(subject.op)
    if made is None:
        raise AbsentError(f"Liger has no {subject.op} of its own")
    functions = peers.module(peers.LIGER, "liger_kernel.transformers.functional")
    # What they return has our names already.
    return CallContender(subject, lambda subject, place: Call(made(functions, subject, place), lambda outputs: outputs))


def _post(functions: Any, subject: Any, place: int) -> Callable[[], Tensors]:
    inputs = subject.inputs(place)
    tensors = {name: getattr(inputs, name) for name in ("x", "y", "h_post", "h_res")}
    if subject.direction == "forward":
        return lambda: {"out": functions.liger_mhc_post_res(*tensors.values())}
    leaves = {name: leaf(tensor) for name, tensor in tensors.items()}
    out = functions.liger_mhc_post_res(*leaves.values())
    return lambda: _grads([out], leaves, [inputs.grad_out])


def _read(functions: Any, subject: Any, place: int) -> Callable[[], Tensors]:
    pre, matrix = subject.inputs(place)
    parameters = parameters_of(pre)
    if subject.direction == "forward":
        return lambda: _coefficients(functions, pre.x, parameters)
    leaves = {"x": leaf(pre.x)}
    leaves |= {name: leaf(tensor.clone()) for name, tensor in parameters.items()}
    outputs = _coefficients(functions, leaves["x"], leaves)
    grads = [pre.grad_h_in, pre.grad_h_post, matrix.grad_matrix]
    return lambda: _in_our_layout(_grads(list(outputs.values()), leaves, grads))


def _layer(functions: Any, subject: Any, place: int) -> Callable[[], Tensors]:
    x, parameters, grad = subject.tensors(place)
    leaves = {"x": leaf(x)}
    leaves |= {name: leaf(value.clone()) for name, value in parameters_of(parameters).items()}

    def step() -> Tensors:
        read = _coefficients(functions, leaves["x"], leaves)
        out = functions.liger_mhc_post_res(leaves["x"], read["h_in"], read["h_post"], read["h_res"])
        return {"out": out, **_in_our_layout(_grads([out], leaves, [grad]))}

    return step


def parameters_of(inputs: Any) -> Tensors:
    """Return our parameters in Liger's layout."""
    gates = {f"alpha_{name}": inputs.alpha[place].clone() for place, name in enumerate(("pre", "post", "res"))}
    return {"phi": inputs.phi.T.contiguous(), "b": inputs.bias.clone(), **gates}


def _coefficients(functions: Any, x: torch.Tensor, parameters: Mapping[str, torch.Tensor]) -> Tensors:
    names = ("phi", "b", "alpha_pre", "alpha_post", "alpha_res")
    h_pre, h_post, h_res = functions.liger_mhc_coeffs(x, *(parameters[name] for name in names), **_OPTIONS)
    return {"h_in": functions.liger_mhc_pre(x, h_pre), "h_post": h_post, "h_res": h_res}


def _grads(outputs: list[torch.Tensor], leaves: Tensors, grads: list[torch.Tensor]) -> Tensors:
    given = torch.autograd.grad(outputs, list(leaves.values()), grads, retain_graph=True)
    return dict(zip(leaves, given, strict=True))


def _in_our_layout(grads: Tensors) -> Tensors:
    alpha = torch.stack([grads[f"alpha_{name}"].reshape(()) for name in ("pre", "post", "res")])
    return {"x": grads["x"], "phi": grads["phi"].T, "alpha": alpha, "bias": grads["b"]}
