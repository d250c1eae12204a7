"""The tanh of a sum times a weight, whose second summand and whose sum a case may not have: one right, and faults."""

import torch


def _forward(x, residual, weight):
    total = x.float() if residual is None else x.float() + residual.float()
    return None if residual is None else total.to(x.dtype), (total.tanh() * weight).to(x.dtype)


def _backward(x, residual, weight, g_sum, g):
    y = (x.float() if residual is None else x.float() + residual.float()).tanh()
    own = g.float() * weight * (1 - y * y) + (0 if g_sum is None else g_sum.float())
    return own.to(x.dtype), None if residual is None else own.to(x.dtype), (g.float() * y).sum(0)


class good(torch.autograd.Function):  # noqa: N801
    @staticmethod
    def forward(ctx, x, residual, weight):
        ctx.save_for_backward(x, residual, weight)
        return _forward(x, residual, weight)

    @staticmethod
    def backward(ctx, g_sum, g):
        return _backward(*ctx.saved_tensors, g_sum, g)


class sum_has_no_gradient(good):  # noqa: N801
    @staticmethod
    def backward(ctx, g_sum, g):
        return _backward(*ctx.saved_tensors, None, g)


class other_gradient_alone(good):  # noqa: N801
    """Forget a factor where there is one summand."""

    @staticmethod
    def backward(ctx, g_sum, g):
        dx, dr, dw = _backward(*ctx.saved_tensors, g_sum, g)
        return dx if dr is not None else dx * 2, dr, dw


class no_weight_alone(good):  # noqa: N801
    @staticmethod
    def backward(ctx, g_sum, g):
        dx, dr, dw = _backward(*ctx.saved_tensors, g_sum, g)
        return dx, dr, dw if dr is not None else None


class fails_alone(good):  # noqa: N801
    @staticmethod
    def backward(ctx, g_sum, g):
        x, residual, weight = ctx.saved_tensors
        return _backward(x, residual.detach(), weight, g_sum, g)


class none_for_y(good):  # noqa: N801
    """Give the outputs in another order where there is one summand."""

    @staticmethod
    def forward(ctx, x, residual, weight):
        total, y = good.forward(ctx, x, residual, weight)
        return (y, None) if residual is None else (total, y)
