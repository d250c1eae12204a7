"""The transforms of ``torch.func``: autograd functions in the form that they take.

What ``torch.library.register_autograd`` makes is refused by ``torch.func.grad``.
"""

from __future__ import annotations

from typing import Any

import torch

from mhc.library import batching, second_order
from mhc.library.operators import Operator


def active() -> bool:
    """Return whether a transform runs."""
    return bool(torch._C._are_functorch_transforms_active())


def forward(operator: Operator, *values: Any) -> tuple[torch.Tensor, ...]:
    """Return all outputs for the tensors (tokens in one dimension), the options and the backend."""
    return _Forward.apply(operator, *values)


def refuse_forward_mode(operator: Operator) -> None:
    """Raise: there is no forward-mode derivative."""
    raise NotImplementedError(
        f"{operator.name}: it has no forward-mode derivative (jvp, jacfwd); use reverse mode (vjp, grad, jacrev)"
    )


def refuse_gradient(operator: Operator) -> None:
    """Raise if the operator has no gradient."""
    if operator.backward_inputs is None:
        raise NotImplementedError(f"{operator.name}: it has no gradient; {operator.name.removesuffix('_fp8')} has one")


def refuse_other_formats(name: str) -> None:
    """Raise while a model is traced or translated for TorchScript or ONNX, which have no operators like these.

    ONNX's exporter traces in several ways, some of which run no code of a model but the fake operators.
    """
    if torch.jit.is_tracing() or torch.onnx.is_in_onnx_export():
        raise NotImplementedError(f"{name}: TorchScript and ONNX do not have it; export the model with torch.export")


class _Forward(torch.autograd.Function):
    """An operator: the arguments of its schema."""

    @staticmethod
    def forward(operator: Operator, *values: Any) -> tuple[torch.Tensor, ...]:
        outputs = getattr(torch.ops.mhc, operator.name)(*values)
        return outputs if isinstance(outputs, tuple) else (outputs,)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]) -> None:
        operator, *values = inputs
        count = len(operator.tensors)
        without = outputs[operator.results :]
        ctx.operator, ctx.rest = operator, tuple(values[count:])
        if operator.keeps_inputs:
            ctx.save_for_backward(*values[:count], *operator.kept(outputs))
        if without:
            ctx.mark_non_differentiable(*without)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        operator = ctx.operator
        refuse_gradient(operator)
        *options, backend = ctx.rest
        needs = tuple(ctx.needs_input_grad[1 : len(operator.tensors) + 1])
        grads = grads[: len(operator.grads)]
        if operator.keeps_inputs:
            asked = (needs,) if operator.needs else ()
            results = _Backward.apply(operator, *ctx.saved_tensors, *grads, *options, *asked, backend)
        else:
            results = _Backward.apply(operator, *grads, backend)
        made = iter(results)
        return (None, *(next(made) if needed else None for needed in needs), *(None,) * len(ctx.rest))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], operator: Operator, *values: Any) -> tuple[Any, Any]:
        outputs = batching.of_forward(operator, _Forward.apply, info.batch_size, in_dims[1:], values)
        return outputs, (0,) * len(outputs)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> None:
        refuse_forward_mode(ctx.operator)


class _Backward(torch.autograd.Function):
    """The gradient of an operator: the arguments of its schema."""

    @staticmethod
    def forward(operator: Operator, *values: Any) -> tuple[torch.Tensor, ...]:
        return tuple(getattr(torch.ops.mhc, f"{operator.name}_backward")(*values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], _: Any) -> None:
        operator, *values = inputs
        tensors, saved, grads, ctx.rest = operator.backward_parts(values)
        ctx.operator, ctx.counts = operator, (len(tensors), len(saved))
        ctx.save_for_backward(*tensors, *grads)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        tensors, saved = ctx.counts
        kept = ctx.saved_tensors
        results = second_order.gradients(ctx.operator, kept[:tensors], kept[tensors:], ctx.rest, cotangents)
        return (None, *results[:tensors], *(None,) * saved, *results[tensors:], *(None,) * len(ctx.rest))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], operator: Operator, *values: Any) -> tuple[Any, Any]:
        outputs = batching.of_backward(operator, _Backward.apply, info.batch_size, in_dims[1:], values)
        return outputs, (0,) * len(outputs)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> None:
        refuse_forward_mode(ctx.operator)
