"""The gradient of a narrow parameter, added up in fp32 in an attribute of it (:mod:`mhc.parameters` says when)."""

from __future__ import annotations

from typing import Any

import torch


@torch.compiler.disable(reason="mhc: main_grad is written outside of a graph")
def with_main_grad(name: str, parameter: torch.Tensor) -> torch.Tensor:
    """Return a narrow parameter in fp32, whose gradient is added to its ``main_grad``.

    Raises:
        ValueError: it is no leaf: nobody would see the attribute.
    """
    if not parameter.is_leaf:
        raise ValueError(f"{name} is no leaf; with main_grad it has to be a parameter itself")
    return _Wide.apply(parameter, name)


class _Wide(torch.autograd.Function):
    """A cast whose gradient goes to ``main_grad``."""

    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, name: str) -> torch.Tensor:
        ctx.parameter, ctx.name = parameter, name
        return parameter.float()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, None]:
        if torch.is_grad_enabled():
            raise NotImplementedError(f"{ctx.name}: with main_grad its gradient has no gradient (create_graph)")
        parameter = ctx.parameter
        if getattr(parameter, "main_grad", None) is None:
            parameter.main_grad = grad.clone()  # others may hold this gradient
        else:
            parameter.main_grad.add_(grad)
        return None, None
