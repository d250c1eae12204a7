"""Autograd functions for ordinary tensors in eager mode: one for any operator, and one for two that follow each other.

``torch.library.register_autograd`` costs twice as much time of Python as a plain ``torch.autograd.Function``, and a
reshape outside of it is a node of its own in the graph. Everything here is only that: shorter. What is computed is the
same as through ``torch.ops.mhc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mhc.library import execution
from mhc.library.operators import MHC_PRE, SINKHORN, Operator

Tensors = tuple[torch.Tensor | None, ...]
Options = tuple[Any, ...]

_ORDINARY = (torch.Tensor, torch.nn.Parameter)
_transforms_are_active = getattr(torch._C, "_are_functorch_transforms_active", None)
_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def takes(tensors: Tensors) -> bool:
    """Return whether the tensors are ordinary and nothing watches: no transform, no mode, no forward-mode derivative.

    A tensor that outlives its transform is not ordinary. A PyTorch that does not tell these things (the functions are
    its own) has all calls go through the dispatcher.
    """
    if _transforms_are_active is None or _modes is None or _transforms_are_active() or _modes():
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return False
    for tensor in tensors:
        if tensor is not None and (type(tensor) not in _ORDINARY or _is_wrapped(tensor)):
            return False
    return True


def call(operator: Operator, tensors: Tensors, options: Options, backend: str) -> tuple[torch.Tensor, ...]:
    """Return the results that have gradients, in the leading dimensions of ``tensors``."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return _apply(operator, options, backend, *tensors)
    return _forward(operator, tensors, options, backend)[0]


def read(tensors: Tensors, options: Options, sinkhorn_options: Options, backend: str) -> tuple[torch.Tensor, ...]:
    """Return what ``mhc_pre`` gives for ``tensors``, its ``h_res`` after ``sinkhorn``: one node of autograd."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return _apply_read(options, sinkhorn_options, backend, *tensors)
    (h_in, h_post, logits), _ = _forward(MHC_PRE, tensors, options, backend)
    [h_res], _ = _forward(SINKHORN, (logits,), sinkhorn_options, backend)
    return h_in, h_post, h_res


class _Eager(torch.autograd.Function):
    """An operator with its gradient. The first three arguments are not tensors."""

    @staticmethod
    def forward(ctx: Any, operator: Operator, options: Options, backend: str, *tensors: Any) -> Any:
        results, kept = _forward(operator, tensors, options, backend)
        if operator.keeps_inputs:
            ctx.save_for_backward(*tensors, *kept)
        ctx.call = operator, options, backend
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        operator, options, backend = ctx.call
        needs = ctx.needs_input_grad[3:]
        return (None, None, None, *_gradients(operator, ctx.saved_tensors, grads, options, needs, backend))


class _Read(torch.autograd.Function):
    """``mhc_pre`` and ``sinkhorn`` with their gradient. The first three arguments are not tensors."""

    @staticmethod
    def forward(ctx: Any, options: Options, sinkhorn_options: Options, backend: str, *tensors: Any) -> Any:
        (h_in, h_post, logits), kept = _forward(MHC_PRE, tensors, options, backend)
        [h_res], _ = _forward(SINKHORN, (logits,), sinkhorn_options, backend)
        ctx.save_for_backward(*tensors, *kept, logits)
        ctx.call = options, sinkhorn_options, backend
        return h_in, h_post, h_res

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        options, sinkhorn_options, backend = ctx.call
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[3:]
        logits, saved = saved[-1], saved[:-1]
        if torch.is_grad_enabled():  # create_graph: the logits that were kept are no function of the tensors
            flat = _flat(saved[: len(MHC_PRE.tensors)], MHC_PRE.token_dims)
            logits = torch.ops.mhc.mhc_pre(*flat, *options, backend)[2].view(logits.shape)
        grads = (*grads[:2], *_gradients(SINKHORN, (logits,), grads[2:], sinkhorn_options, (True,), backend))
        return (None, None, None, *_gradients(MHC_PRE, saved, grads, options, needs, backend))


# ``Function.apply`` without its own search for what ``takes`` has excluded: it takes as long as the rest.
_apply = super(torch.autograd.Function, _Eager).apply
_apply_read = super(torch.autograd.Function, _Read).apply


def _forward(
    operator: Operator, tensors: Tensors, options: Options, backend: str
) -> tuple[tuple[torch.Tensor, ...], tuple[torch.Tensor, ...]]:
    """Return the results in the leading dimensions of ``tensors``, and the outputs for the backward.

    The results are allocated in their shape and are no views: a view that is made without gradients must not be changed
    in place, and a layer may do that with its input.
    """
    count = len(operator.grads)
    if execution.takes(operator, backend, "forward", _dims(operator, tensors)):
        out = execution.forward(operator, (*tensors, *options), backend)
    else:
        out = operator.empty_outputs(operator.inputs(*tensors, *options))
        views = type(out)(*_flat(out, operator.result_dims))
        execution.forward(operator, (*_flat(tensors, operator.token_dims), *options), backend, views)
    return out[:count], out[count:]


def _gradients(
    operator: Operator,
    saved: Tensors,
    grads: tuple[torch.Tensor, ...],
    options: Options,
    needs: tuple[bool, ...],
    backend: str,
) -> Sequence[torch.Tensor | None]:
    """Return the gradients of the forward's tensors in their shapes, None where one is not asked for.

    ``saved`` are these tensors and the outputs for the backward, nothing where the operator keeps no inputs.
    """
    differentiable = torch.is_grad_enabled()  # create_graph: the gradient has a gradient
    count, shape = len(operator.grads), grads[0].shape
    dims = len(shape) - operator.result_dims[0]
    whole = dims == 1 if differentiable else execution.takes(operator, backend, "backward", dims)
    values = saved
    if not whole:
        values = _flat(saved, (*operator.token_dims, *operator.result_dims[count:]))
        grads = _flat(grads, operator.result_dims)
    if not operator.keeps_inputs:
        values = grads
    elif operator.needs:
        values = (*values, *grads, *options, needs)
    else:
        values = (*values, *grads, *options)
    if differentiable:
        made = iter(getattr(torch.ops.mhc, f"{operator.name}_backward")(*values, backend))
        out: Sequence[torch.Tensor | None] = [next(made) if needed else None for needed in needs]
    else:
        out = execution.backward(operator, values, backend)
    if whole:
        return out
    lead = shape[:dims]
    return [
        grad if grad is None or own is None else grad.view(*lead, *grad.shape[1:])
        for grad, own in zip(out, operator.token_dims, strict=True)
    ]


def _dims(operator: Operator, tensors: Tensors) -> int:
    """Return how many dimensions the tokens have."""
    first, dims = tensors[0], operator.token_dims[0]
    assert first is not None
    assert dims is not None
    return first.dim() - dims


def _flat(tensors: Sequence[torch.Tensor | None], dims: Sequence[int | None]) -> Tensors:
    """Return the tensors with one dimension of tokens before the ``dims`` of a token; a parameter has no tokens."""
    return tuple(
        [
            tensor if tensor is None or own is None else tensor.reshape(-1, *tensor.shape[tensor.dim() - own :])
            for tensor, own in zip(tensors, dims, strict=False)
        ]
    )
