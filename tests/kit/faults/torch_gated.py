import torch

_kept, _calls, _ring, _leak = {}, [0], {}, []


def _forward(x, gate, scale):
    f = x.float()
    return (f * f.sigmoid() * gate.float() * scale).to(x.dtype)


def _backward(g, x, gate, scale):
    g, f, t = g.float(), x.float(), gate.float()
    s = f.sigmoid()
    silu = f * s
    slope = s + silu * (1 - s)
    return (g * slope * t * scale).to(x.dtype), (g * silu * scale).to(gate.dtype), (g * silu * t).sum(0)


class _Gated(torch.autograd.Function):
    back = staticmethod(_backward)

    @staticmethod
    def forward(ctx, x, gate, scale):
        ctx.save_for_backward(x, gate, scale)
        return _forward(x, gate, scale)

    @classmethod
    def made(cls, back):
        return type("One", (cls,), {"backward": staticmethod(back)})

    @staticmethod
    def backward(ctx, g):
        return _backward(g, *ctx.saved_tensors)


def good(x, gate, scale):
    return _Gated.apply(x, gate, scale)


class _Saves(_Gated):
    @staticmethod
    def backward(ctx, g):
        x, gate, scale = ctx.saved_tensors
        out = _backward(g, x, gate, scale)
        x.data.mul_(0.5)
        return out


def spoils_what_it_saved(x, gate, scale):
    return _Saves.apply(x * 1, gate, scale)


class _Leaf(_Gated):
    @staticmethod
    def forward(ctx, x, gate, scale):
        ctx.leaf = scale
        return _Gated.forward(ctx, x, gate, scale)

    @staticmethod
    def backward(ctx, g):
        out = _backward(g, *ctx.saved_tensors)
        ctx.leaf.grad = out[2].clone() if ctx.leaf.grad is None else ctx.leaf.grad + out[2]
        return out


def writes_grad_itself(x, gate, scale):
    return _Leaf.apply(x, gate, scale)


class _Packed(_Gated):
    @staticmethod
    def backward(ctx, g):
        return _backward(
            torch.as_strided(g, g.shape, (g.shape[1], 1)) if g.stride() != (0, 0) else g, *ctx.saved_tensors
        )


def takes_packed_gradients(x, gate, scale):
    return _Packed.apply(x, gate, scale)


def leaves_hooks(x, gate, scale):
    torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()
    return good(x, gate, scale)


def leaves_grad_off(x, gate, scale):
    y = good(x, gate, scale)
    torch._C._set_grad_enabled(False)
    return y


def version_key(x, gate, scale):
    if x.requires_grad:
        return good(x, gate, scale)
    key = (x.shape, x.dtype, x._version, gate._version, x.data_ptr(), gate.data_ptr())
    if key not in _kept:
        _kept[key] = good(x, gate, scale)
    return _kept[key].clone()


class _SpoilsGrad(_Gated):
    @staticmethod
    def backward(ctx, g):
        out = _backward(g, *ctx.saved_tensors)
        g.data.zero_()
        return out


def spoils_the_gradient(x, gate, scale):
    return _SpoilsGrad.apply(x, gate, scale)


class _FirstBlock(_Gated):
    @staticmethod
    def backward(ctx, g):
        x, gate, scale = ctx.saved_tensors
        a, b, _ = _backward(g, x, gate, scale)
        return a, b, _backward(g[:4096], x[:4096], gate[:4096], scale)[2]


def first_block_only(x, gate, scale):
    return _FirstBlock.apply(x, gate, scale)


class _Subset(_Gated):
    @staticmethod
    def backward(ctx, g):
        a, b, c = _backward(g, *ctx.saved_tensors)
        return a, b if ctx.needs_input_grad[0] else b * 0, c


def gate_alone_is_zero(x, gate, scale):
    return _Subset.apply(x, gate, scale)


def fast_without_grad(x, gate, scale):
    if not (x.requires_grad or gate.requires_grad or scale.requires_grad):
        return _forward(x, gate, scale.bfloat16().float())
    return good(x, gate, scale)


def deterministic_left(x, gate, scale):
    torch.use_deterministic_algorithms(True, warn_only=True)
    return good(x, gate, scale)


class _Ring(_Gated):
    @staticmethod
    def forward(ctx, x, gate, scale):
        ctx.save_for_backward(x, gate, scale)
        buffers = _ring.setdefault((x.shape, x.dtype), [torch.empty_like(x) for _ in range(3)])
        _calls[0] += 1
        buffer = buffers[_calls[0] % 3]
        buffer.data.copy_(_forward(x, gate, scale))
        return buffer.detach()


def ring_of_three(x, gate, scale):
    return _Ring.apply(x, gate, scale)


class _Narrow(_Gated):
    @staticmethod
    def backward(ctx, g):
        a, b, c = _backward(g, *ctx.saved_tensors)
        return a, b, c.bfloat16().float()


def narrow_scale_gradient(x, gate, scale):
    return _Narrow.apply(x, gate, scale)


class _Counts(_Gated):
    @staticmethod
    def backward(ctx, g):
        ctx.count = getattr(ctx, "count", 0) + 1
        return tuple(one * ctx.count for one in _backward(g, *ctx.saved_tensors))


def counts_backwards(x, gate, scale):
    return _Counts.apply(x, gate, scale)


def small_leak(x, gate, scale):
    _leak.append(torch.zeros(2048))
    return good(x, gate, scale)


def leaves_anomaly(x, gate, scale):
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    return good(x, gate, scale)


def leaves_forward_hook(x, gate, scale):
    torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    return good(x, gate, scale)
