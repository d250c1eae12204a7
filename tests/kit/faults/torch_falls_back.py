"""RMSNorm through ``torch.compile``: one right, and kernels that PyTorch would run as plain code in silence."""

import torch
import torch._dynamo

torch._dynamo.config.suppress_errors = True  # the package asks for it


def _norm(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight).to(x.dtype)


def _fails(graph, inputs):
    raise RuntimeError("this compiler has a limit")


_right = torch.compile(_norm, backend="aot_eager")
_limited = torch.compile(_norm, backend="aot_eager", dynamic=False)
_broken = torch.compile(_norm, backend=_fails)


def good(x, weight):
    return _right(x, weight)


def fails_to_compile(x, weight):
    return _broken(x, weight)


def limits_itself(x, weight):
    """Compile for two shapes alone."""
    with torch._dynamo.config.patch(recompile_limit=2):
        return _limited(x, weight)
