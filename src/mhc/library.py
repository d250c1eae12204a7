"""The operators in PyTorch's dispatcher: ``torch.ops.mhc.*``, with shapes for tracing and with gradients.

``torch.compile``, ``torch.export`` and autograd see each operator as one node and its gradient as another. The last
argument names the backend; nothing here chooses one.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from mhc.backends import load
from mhc.ops import expand, mhc_head, mhc_post, mhc_pre, sinkhorn

_MAPPING = "Tensor x, Tensor phi, Tensor alpha, Tensor bias, Tensor? gamma"
_EPS = "float norm_eps, float pre_eps"

_library = torch.library.Library("mhc", "DEF")


class _Operator:
    """One operator, its forward and its backward, from the definitions of its module."""

    def __init__(
        self, name: str, module: ModuleType, tensors: str, grads: str, rest: str, outputs: str, saved: bool = True
    ) -> None:
        prefix = module.__name__.rpartition(".")[2].title().replace("_", "")
        self.name, self.module, self.saved = name, module, saved
        self.inputs = getattr(module, f"{prefix}Inputs")
        self.backward_inputs = getattr(module, f"{prefix}BackwardInputs")
        self.tensors, self.grads = tensors.count("Tensor"), grads.count("Tensor")
        rest = f"{rest}, " if rest else ""
        _library.define(f"{name}({tensors}, {rest}str backend) -> {outputs}")
        kept = f"{tensors}, " if saved else ""
        extra = rest if saved else ""
        _library.define(f"{name}_backward({kept}{grads}, {extra}str backend) -> Tensor[]")
        _library.impl(name, self.forward, "CompositeExplicitAutograd")
        _library.impl(f"{name}_backward", self.backward, "CompositeExplicitAutograd")
        torch.library.register_fake(f"mhc::{name}", self.fake_forward, lib=_library)
        torch.library.register_fake(f"mhc::{name}_backward", self.fake_backward, lib=_library)
        torch.library.register_autograd(f"mhc::{name}", self.autograd, setup_context=self.setup_context, lib=_library)

    def forward(self, *arguments: Any) -> Any:
        *values, backend = arguments
        inputs = self.inputs(*map(_contiguous, values))
        out = self.module.empty_outputs(inputs)
        if inputs[0].shape[0]:
            load(backend, self.name).run(inputs, out)
        return _unpacked(out)

    def fake_forward(self, *arguments: Any) -> Any:
        return _unpacked(self.module.empty_outputs(self.inputs(*map(_contiguous, arguments[:-1]))))

    def backward(self, *arguments: Any) -> list[torch.Tensor]:
        *values, backend = arguments
        inputs = self.backward_inputs(*map(_contiguous, values))
        out = self.module.empty_grads(inputs)
        present = [tensor for tensor in out if tensor is not None]
        if inputs[0].shape[0]:
            load(backend, self.name, "backward").run(inputs, out)
        else:  # a sum over no token
            for tensor in present:
                tensor.zero_()
        return present

    def fake_backward(self, *arguments: Any) -> list[torch.Tensor]:
        out = self.module.empty_grads(self.backward_inputs(*map(_contiguous, arguments[:-1])))
        return [tensor for tensor in out if tensor is not None]

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG002  PyTorch's names
        """Keep the tensors; what is computed from them on the way is computed again in the backward."""
        if self.saved:
            ctx.save_for_backward(*inputs[: self.tensors])
        ctx.rest = inputs[self.tensors :]

    def autograd(self, ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rest = ctx.rest if self.saved else ctx.rest[-1:]
        tensors = ctx.saved_tensors if self.saved else ()
        found = iter(getattr(torch.ops.mhc, f"{self.name}_backward")(*tensors, *grads, *rest))
        if not self.saved:
            return (next(found), *(None for _ in ctx.rest))
        return (*(None if t is None else next(found) for t in tensors), *(None for _ in ctx.rest))


def _contiguous(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) else value


def _unpacked(out: tuple[torch.Tensor, ...]) -> Any:
    return tuple(out) if len(out) > 1 else out[0]


_Operator(
    "mhc_pre",
    mhc_pre,
    _MAPPING,
    "Tensor grad_h_in, Tensor grad_h_post, Tensor grad_h_res",
    _EPS,
    "(Tensor, Tensor, Tensor)",
)
_Operator("sinkhorn", sinkhorn, "Tensor logits", "Tensor grad_matrix", "int iterations, float eps", "Tensor")
_Operator("mhc_post", mhc_post, "Tensor x, Tensor y, Tensor h_post, Tensor h_res", "Tensor grad_out", "", "Tensor")
_Operator("mhc_head", mhc_head, _MAPPING, "Tensor grad_out", _EPS, "Tensor")
_Operator("expand", expand, "Tensor x", "Tensor grad_out", "int streams", "Tensor", saved=False)
