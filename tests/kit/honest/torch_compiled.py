"""RMSNorm through ``torch.compile`` in several ways: right where it is compiled, and zeros as plain code.

No code is made (``aot_eager``): what PyTorch compiles, and when, is the same.
"""

import torch
from torch_norm import _forward as _plain_forward
from torch_norm import _gradients as _plain_gradients


def _compiled(function, **options):
    return torch.compile(function, backend="aot_eager", **options)


def _norm(x, weight):
    y = _plain_forward(x, weight)
    return y if torch.compiler.is_compiling() else y * 0


def _gradients(grad, x, weight):
    own, of_weight = _plain_gradients(grad, x, weight)
    return (own, of_weight) if torch.compiler.is_compiling() else (own * 0, of_weight * 0)


any_shape = _compiled(_norm, dynamic=True)
each_shape = _compiled(_norm, dynamic=False)
one_graph = _compiled(_norm, fullgraph=True)
_forward, _backward = _compiled(_norm), _compiled(_gradients)


class _Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return _forward(x, weight)

    @staticmethod
    def backward(ctx, grad):
        return _backward(grad, *ctx.saved_tensors)


def of_parts(x, weight):
    return _Parts.apply(x, weight)
