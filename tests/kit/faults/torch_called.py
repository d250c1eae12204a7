"""Faults that a caller meets who does more than the kit: between the directions, with other tensors, twice."""

import torch

_last, _packed = {}, {}


def _r(x):
    return (x.float().square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def _gradients(x, weight, g):
    r, scaled = _r(x), g.float() * weight
    normed = x.float() * r
    return (r * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))).to(x.dtype), (g.float() * normed).sum(0)


def _norm(x, weight):
    return (x.float() * _r(x) * weight).to(x.dtype)


class good(torch.autograd.Function):  # noqa: N801
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return _norm(x, weight)

    @staticmethod
    def backward(ctx, g):
        return _gradients(*ctx.saved_tensors, g)


class keeps_what_came_last(good):  # noqa: N801
    """Two forwards and then two backwards give the gradients of the second."""

    @staticmethod
    def forward(ctx, x, weight):
        _last["given"] = x, weight
        return _norm(x, weight)

    @staticmethod
    def backward(ctx, g):
        return _gradients(*_last["given"], g)


class reads_the_gradient_as_packed(good):  # noqa: N801
    @staticmethod
    def backward(ctx, g):
        if not g.is_contiguous():
            some = min(g.untyped_storage().nbytes() // g.element_size() - g.storage_offset(), g.numel())
            flat = torch.zeros(g.numel(), dtype=g.dtype)
            flat[:some] = g.as_strided((some,), (1,))
            g = flat.view(g.shape)
        return _gradients(*ctx.saved_tensors, g)


class writes_into_the_gradient(good):  # noqa: N801
    @staticmethod
    def backward(ctx, g):
        dx, dw = _gradients(*ctx.saved_tensors, g)
        return g.copy_(dx), dw


class second_derivative_is_none(good):  # noqa: N801
    @staticmethod
    def backward(ctx, g):
        return _gradients(*(one.detach() for one in ctx.saved_tensors), g.detach())


class kept_beside_autograd(good):  # noqa: N801
    """Nobody says that an input was changed between the forward and the backward."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.given = x.detach(), weight.detach()
        return _norm(x, weight)

    @staticmethod
    def backward(ctx, g):
        return _gradients(*ctx.given, g)


def packed_until_the_version_changes(x, weight):
    """A kernel of another package that writes into the weight changes no version."""
    if weight.is_inference() or weight.requires_grad:
        return good.apply(x, weight)
    key = weight.data_ptr(), weight._version, weight.shape, weight.stride()
    if key not in _packed:
        _packed.clear()
        _packed[key] = weight.clone()
    return good.apply(x, _packed[key])


def forgets_a_parameter(x, weight):
    return good.apply(x, torch.ones_like(weight) if isinstance(weight, torch.nn.Parameter) else weight)


def result_asks_for_a_gradient(x, weight):
    y = good.apply(x, weight)
    return y if y.requires_grad or torch.is_inference_mode_enabled() else y.requires_grad_()


class _Named(torch.Tensor):
    pass


def gives_a_subclass(x, weight):
    return good.apply(x, weight).as_subclass(_Named)


def gives_a_parameter(x, weight):
    y = good.apply(x, weight)
    return y if y.requires_grad else torch.nn.Parameter(y)


def gives_an_array_of_numpy(x, weight):
    y = good.apply(x, weight)
    return y if y.requires_grad or y.dtype == torch.bfloat16 else y.numpy()
