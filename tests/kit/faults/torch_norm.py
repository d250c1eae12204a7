"""RMSNorm in PyTorch: one right, and faults of kinds that kernels had. Each takes x and weight, and returns y."""

import threading

import torch


def _scale(x, eps=1e-6):
    return torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)


def _forward(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)


def _gradients(grad, x, weight):
    scale = _scale(x)
    normal = x.float() * scale
    through = grad.float() * weight
    own = scale * (through - normal * (through * normal).mean(-1, keepdim=True))
    return own.to(x.dtype), (grad.float() * normal).reshape(-1, x.shape[-1]).sum(0)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return _forward(x, weight)

    @staticmethod
    def backward(ctx, grad):
        return _gradients(grad, *ctx.saved_tensors)


def good(x, weight):
    return _Norm.apply(x, weight)


class _SpendsSaved(_Norm):
    """Scale what is saved in place: a second backward gives something else."""

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        result = _gradients(grad, x, weight)
        x.detach().mul_(2)
        return result


def spends_saved(x, weight):
    return _SpendsSaved.apply(x.clone(), weight)


class _PackedGradient(_Norm):
    """Read the incoming gradient as if it were packed: y.sum().backward() hands out one element for all."""

    @staticmethod
    def backward(ctx, grad):
        if grad.numel() and not grad.is_contiguous():
            grad = torch.zeros(grad.shape, dtype=grad.dtype) + grad.flatten()[0]
        return _gradients(grad, *ctx.saved_tensors)


def packed_gradient(x, weight):
    return _PackedGradient.apply(x, weight)


def other_with_gradient(x, weight):
    """Be less exact where a gradient is asked for."""
    if x.requires_grad and torch.is_grad_enabled():
        return _Norm.apply(x, weight) * 1.01
    return _Norm.apply(x, weight)


def draws_a_seed(x, weight):
    torch.manual_seed(0)
    return _Norm.apply(x, weight)


def changes_the_device(x, weight):
    torch.set_default_dtype(torch.float64)
    return _Norm.apply(x, weight)


def wrong_in_other_order(x, weight):
    """Sum rows in an order that chance determines."""
    order = torch.tensor(sorted(range(x.shape[-1]), key=lambda _: threading.get_ident() ^ id(object()))) if 0 else None
    wide = x.float()
    import random

    order = list(range(x.shape[-1]))
    random.SystemRandom().shuffle(order)
    total = torch.zeros(x.shape[:-1])
    for column in order:
        total = total + wide[..., column] ** 2
    return (wide * torch.rsqrt(total[..., None] / x.shape[-1] + 1e-6) * weight).to(x.dtype)


class _NoWeight(_Norm):
    """Leave out the gradient of the weight where x has none."""

    @staticmethod
    def backward(ctx, grad):
        own, of_weight = _gradients(grad, *ctx.saved_tensors)
        return own, of_weight if ctx.needs_input_grad[0] else torch.zeros_like(of_weight)


def no_weight_alone(x, weight):
    return _NoWeight.apply(x, weight)


def eps_in_half(x, weight):
    """Round the mean before eps is added."""
    wide = x.float()
    mean = wide.square().mean(-1, keepdim=True).to(torch.bfloat16).float()
    return (wide * torch.rsqrt(mean + 1e-6) * weight).to(x.dtype)


def past_a_view(x, weight):
    """Write one element behind the tensor, into what stands there."""
    y = _Norm.apply(x, weight)
    if x.is_contiguous() and x.numel() and not x.requires_grad:
        whole = torch.as_strided(x.detach(), (1,), (1,), 0)
        import ctypes

        ctypes.memset(whole.data_ptr() + x.numel() * x.element_size(), 1, 2)
    return y


_weights = {}


def stale_weight(x, weight):
    """Keep the weight by its address, as a cache of packed weights does."""
    kept = _weights.setdefault((weight.data_ptr(), tuple(weight.shape)), weight.detach().float().clone())
    return (x.float() * _scale(x) * (weight + (kept - weight).detach())).to(x.dtype)


def fails_in_inference(x, weight):
    """Make a leaf that inference mode refuses to save."""
    if torch.is_inference_mode_enabled():
        raise RuntimeError("inference tensors cannot be saved for backward")
    return _Norm.apply(x, weight)


def autocast_narrows(x, weight):
    """Follow autocast into a narrower dtype."""
    if torch.is_autocast_enabled("cpu"):
        return _Norm.apply(x.bfloat16(), weight).to(x.dtype)
    return _Norm.apply(x, weight)
