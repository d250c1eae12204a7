"""``torch.ops.mhc.*``: schemas, shapes for tracing, gradients and batching."""

from __future__ import annotations

from typing import Any

import torch

from mhc.library import batching, execution, second_order, transforms
from mhc.library.operators import Operator

_library = torch.library.Library("mhc", "DEF")


def register(operator: Operator) -> None:
    """Define the operator, and its gradient if it has one, in PyTorch's dispatcher."""
    both = (
        (operator.name, operator.schema, _Forward),
        (f"{operator.name}_backward", operator.backward_schema, _Backward),
    )
    for name, schema, kind in both if operator.backward_inputs else both[:1]:
        functions = kind(operator)
        _library.define(schema)
        _library.impl(name, functions.run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"mhc::{name}", functions.fake, lib=_library)
        torch.library.register_autograd(
            f"mhc::{name}", functions.autograd, setup_context=functions.setup_context, lib=_library
        )
        torch.library.register_vmap(f"mhc::{name}", functions.vmap, lib=_library)


class _Forward:
    """The functions that PyTorch calls for one operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def run(self, *arguments: Any) -> Any:
        *values, backend = arguments
        return _unpacked(execution.forward(self._operator, tuple(values), backend))

    def fake(self, *arguments: Any) -> Any:
        transforms.refuse_other_formats(self._operator.name)
        return _unpacked(self._operator.empty_outputs(self._operator.inputs(*map(_contiguous, arguments[:-1]))))

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep the input tensors, and those outputs of the forward that the backward takes."""
        count = len(self._operator.tensors)
        if self._operator.keeps_inputs:
            saved = self._operator.kept(output) if self._operator.saved else ()
            ctx.save_for_backward(*inputs[:count], *saved)
            if saved:
                ctx.mark_non_differentiable(*output[self._operator.results :])
        ctx.options = inputs[count:]

    def autograd(self, ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the tensors by the operator's backward, and None for every option."""
        operator = self._operator
        transforms.refuse_gradient(operator)
        backward = getattr(torch.ops.mhc, f"{operator.name}_backward")
        *options, backend = ctx.options
        no_grads = (None,) * len(ctx.options)
        if not operator.keeps_inputs:
            return (*backward(*grads, backend), *no_grads)
        needs = tuple(ctx.needs_input_grad[: len(operator.tensors)])
        asked = (needs,) if operator.needs else ()
        results = iter(backward(*ctx.saved_tensors, *grads[: len(operator.grads)], *options, *asked, backend))
        return (*(next(results) if needed else None for needed in needs), *no_grads)

    def vmap(self, info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[Any, Any]:
        """Run the operator on a batch."""
        operator = self._operator
        function = getattr(torch.ops.mhc, operator.name)
        outputs = batching.of_forward(
            operator, lambda _, *values: function(*values), info.batch_size, in_dims, arguments
        )
        return outputs, (0,) * len(outputs) if isinstance(outputs, tuple) else 0


class _Backward:
    """The functions that PyTorch calls for the gradient of one operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def run(self, *arguments: Any) -> list[torch.Tensor]:
        *values, backend = arguments
        return [grad for grad in execution.backward(self._operator, tuple(values), backend) if grad is not None]

    def fake(self, *arguments: Any) -> list[torch.Tensor]:
        out = self._operator.empty_grads(self._operator.backward_inputs(*map(_contiguous, arguments[:-1])))
        return [grad for grad in out if grad is not None]

    def setup_context(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG002
        """Keep the tensors of the forward and the gradients that came in."""
        tensors, saved, grads, ctx.rest = self._operator.backward_parts(inputs)
        ctx.save_for_backward(*tensors, *grads)
        ctx.counts = len(tensors), len(saved)

    def autograd(self, ctx: Any, cotangents: list[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
        """Return the gradients of the forward's tensors and of the gradients that came in."""
        operator = self._operator
        tensors, saved = ctx.counts
        results = second_order.gradients(
            operator, ctx.saved_tensors[:tensors], ctx.saved_tensors[tensors:], ctx.rest, cotangents
        )
        return (*results[:tensors], *(None,) * saved, *results[tensors:], *(None,) * len(ctx.rest))

    def vmap(self, info: Any, in_dims: tuple[int | None, ...], *arguments: Any) -> tuple[list[torch.Tensor], list[int]]:
        """Compute the gradients for a batch."""
        operator = self._operator
        function = getattr(torch.ops.mhc, f"{operator.name}_backward")
        outputs = batching.of_backward(
            operator, lambda _, *values: function(*values), info.batch_size, in_dims, arguments
        )
        return outputs, [0] * len(outputs)


def _contiguous(value: Any) -> Any:
    return value.contiguous() if isinstance(value, torch.Tensor) else value


def _unpacked(out: tuple[torch.Tensor, ...]) -> Any:
    return tuple(out) if len(out) > 1 else out[0]
