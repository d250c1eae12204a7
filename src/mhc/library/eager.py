"""Autograd functions for ordinary tensors in eager mode: one for any operator, and one for two that follow each other.

``torch.library.register_autograd`` costs twice as much time of Python as a plain ``torch.autograd.Function``, and a
reshape outside of it is a node of its own in the graph. Everything here is only that: shorter. What is computed is the
same as through ``torch.ops.mhc``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from mhc.library import ahead, execution
from mhc.library.operators import MHC_PRE, SINKHORN, Operator, flat

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
    """Return x to hand on, and what ``mhc_pre`` gives with its ``h_res`` after ``sinkhorn``: one node of autograd.

    The gradient of the x that is handed on is added inside the backward of ``mhc_pre``.
    """
    x = tensors[0]
    assert x is not None
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                sizes = (*x.shape[-2:], x.dtype, tensors[4] is not None)
                ahead.compile_layer(backend, x.device, sizes, options, sinkhorn_options)
                results = _apply_read(options, sinkhorn_options, backend, *tensors)
                return results if x.requires_grad else (x, *results)
    (h_in, h_post, logits), _ = _forward(MHC_PRE, tensors, options, backend)
    [h_res], _ = _forward(SINKHORN, (logits,), sinkhorn_options, backend)
    return x, h_in, h_post, h_res


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
    """``mhc_pre`` and ``sinkhorn`` with their gradient. The first three arguments are not tensors.

    An x that needs a gradient is also the first result. Autograd makes it a view of the argument.
    """

    @staticmethod
    def forward(ctx: Any, options: Options, sinkhorn_options: Options, backend: str, *tensors: Any) -> Any:
        (h_in, h_post, logits), kept = _forward(MHC_PRE, tensors, options, backend)
        [h_res], _ = _forward(SINKHORN, (logits,), sinkhorn_options, backend)
        ctx.save_for_backward(*tensors, *kept, logits)
        ctx.set_materialize_grads(False)  # zeros for an x that nobody takes would cost as much as adding them
        ctx.call = options, sinkhorn_options, backend
        return (tensors[0], h_in, h_post, h_res) if tensors[0].requires_grad else (h_in, h_post, h_res)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        alone = len(grads) > 3 and grads[0] is not None and _references(grads) == _ALONE
        options, sinkhorn_options, backend = ctx.call
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[3:]
        logits, saved = saved[-1], saved[:-1]
        handed = grads[0] if len(grads) > 3 and needs[0] else None
        to_h_in, to_h_post, to_h_res = _materialized(grads[-3:], saved[0], logits)
        if torch.is_grad_enabled():  # create_graph: the logits that were kept are no function of the tensors
            flat = _flat(saved[: len(MHC_PRE.tensors)], MHC_PRE.token_dims)
            logits = torch.ops.mhc.mhc_pre(*flat, *options, backend)[2].view(logits.shape)
        [to_logits] = _gradients(SINKHORN, (logits,), (to_h_res,), sinkhorn_options, (True,), backend)
        assert to_logits is not None
        incoming = (to_h_in, to_h_post, to_logits)
        return (None, None, None, *_gradients(MHC_PRE, saved, incoming, options, needs, backend, handed, alone))


def _materialized(
    grads: Sequence[torch.Tensor | None], x: torch.Tensor, logits: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Return the gradients of h_in, h_post and h_res, zeros for a result that nobody took."""
    to_h_in, to_h_post, to_h_res = grads
    return (
        x.new_zeros(x.shape[:-2] + x.shape[-1:]) if to_h_in is None else to_h_in,
        logits.new_zeros(logits.shape[:-1]) if to_h_post is None else to_h_post,
        torch.zeros_like(logits) if to_h_res is None else to_h_res,
    )


def _references(grads: tuple[torch.Tensor | None, ...]) -> tuple[int, ...]:
    """Return how many references the first gradient that a backward got has in Python, in C++, and to its memory."""
    first = grads[0]
    assert first is not None
    memory = torch._C._storage_Use_Count(first.untyped_storage()._cdata)  # views, and what holds it for later
    return sys.getrefcount(first), first._use_count(), memory


class _Probe(torch.autograd.Function):
    """Return its argument again; the second of two counts the references to the gradient that the first one made."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, counts: list[tuple[int, ...]]) -> torch.Tensor:
        ctx.counts = counts
        return tensor.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.counts.append(_references(grads))
        return torch.empty_like(grads[0]), None


def _references_of_one_alone() -> tuple[int, ...] | None:
    """Return the references of a gradient that nobody has but autograd and the backward that gets it.

    How many they are depends on the versions of PyTorch and Python. One that cannot tell says None.
    """
    counts: list[tuple[int, ...]] = []
    try:
        with torch.inference_mode(False), torch.enable_grad():
            _Probe.apply(_Probe.apply(torch.zeros((), device="cpu", requires_grad=True), counts), counts).backward()
    except AttributeError:
        return None
    return counts[-1]


_ALONE = _references_of_one_alone()

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
    count = operator.results
    if execution.takes(operator, backend, "forward", _dims(operator, tensors)):
        out = execution.forward(operator, (*tensors, *options), backend)
    else:
        out = operator.empty_outputs(operator.inputs(*tensors, *options))
        views = type(out)(*_flat(out, operator.result_dims))
        execution.forward(operator, (*_flat(tensors, operator.token_dims), *options), backend, views)
    return out[:count], operator.kept(out)


def _gradients(
    operator: Operator,
    saved: Tensors,
    grads: tuple[torch.Tensor, ...],
    options: Options,
    needs: tuple[bool, ...],
    backend: str,
    handed: torch.Tensor | None = None,
    alone: bool = False,
) -> Sequence[torch.Tensor | None]:
    """Return the gradients of the forward's tensors in their shapes, None where one is not asked for.

    ``saved`` are these tensors and the outputs for the backward, nothing where the operator keeps no inputs. ``handed``
    is added to the gradient of the first tensor: by the kernel where it can, else behind it. Where it is ``alone``,
    the kernel does that in its memory.
    """
    differentiable = torch.is_grad_enabled()  # create_graph: the gradient has a gradient
    shape = grads[0].shape
    dims = len(shape) - operator.result_dims[0]
    whole = dims == 1 if differentiable else execution.takes(operator, backend, "backward", dims)
    inside = handed is not None and not differentiable and execution.adds(operator, backend, saved)
    values, added = saved, handed
    if not whole:
        values = _flat(saved, (*operator.token_dims, *operator.kept(operator.result_dims)))
        grads = _flat(grads, operator.result_dims)
        [added] = _flat((handed,), operator.token_dims)
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
        out = execution.backward(operator, values, backend, added if inside else None, overwritten=alone)
    if not whole:
        lead = shape[:dims]
        out = [
            grad if grad is None or own is None else grad.view(*lead, *grad.shape[1:])
            for grad, own in zip(out, operator.token_dims, strict=True)
        ]
    if handed is None or inside:
        return out
    first, *others = out
    assert first is not None
    return (first + handed if differentiable else first.add_(handed), *others)


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
            tensor if tensor is None or own is None else flat(tensor, own)
            for tensor, own in zip(tensors, dims, strict=False)
        ]
    )
