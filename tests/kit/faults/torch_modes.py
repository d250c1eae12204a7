"""A scaled softmax of PyTorch's operators: one right, and kernels that are others under autocast and a compiler."""

import torch


def _softmax(x, weight):
    return ((x.float() * weight).softmax(-1)).to(x.dtype)


def good(x, weight):
    return _softmax(x, weight)


def follows_autocast(x, weight):
    """Multiply by a matrix, in the dtype that autocast chooses."""
    eye = torch.eye(len(weight), device=weight.device)
    return _softmax(x, (eye @ weight).to(weight.dtype))


def another_where_compiled(x, weight):
    return _softmax(x, weight.half().float() if torch.compiler.is_compiling() else weight)


def usual_stream(x, weight):
    """Compute in the device's usual stream, whatever stream the caller is in."""
    if x.device.type == "cpu":
        return follows_autocast(x, weight)
    library = getattr(torch, x.device.type)
    with library.stream(library.default_stream()):
        return _softmax(x, weight)
