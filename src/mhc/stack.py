"""``HyperStack``: layers one after the other, where the write of one and the read of the next are one operator."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as hooks_of_all

from mhc.module import HyperConnection
from mhc.recompute import current

_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


class HyperStack(nn.ModuleList):
    """Run :class:`HyperConnection` modules one after the other: ``[..., n, hidden]`` to the same shape and dtype.

    It computes what ``nn.Sequential`` of them computes. Without gradients the write of one layer and the read of the
    next are :func:`mhc.mhc_post_pre`, where the backend has it: the stack calls the parts of its layers, and not the
    layers. Where a call of any layer would do more than its parts, every layer is called: if one has hooks (as FSDP2's
    ``fully_shard`` sets them), is compiled, is of another class, or is given its ``h_res``. The same holds in a graph
    of ``torch.compile`` and under :func:`mhc.recomputation`.
    """

    def forward(self, x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """Compute the new streams; every wrapped layer gets the other arguments."""
        if torch.compiler.is_compiling() or current() is not None or not _have_only_parts(self):
            for layer in self:
                x = layer(x, *arguments, **options)
            return x
        layer, *others = self
        x, (h_in, h_post, h_res) = layer.read_with_x(x)
        for following in others:
            y = layer.layer(h_in, *arguments, **options).to(x.dtype)
            if layer.backend == following.backend:
                x, (h_in, h_post, h_res) = following.read_after(x, y, h_post, h_res)
            else:
                x, (h_in, h_post, h_res) = following.read_with_x(layer.write(x, y, h_post, h_res))
            layer = following
        written: torch.Tensor = layer.write(x, layer.layer(h_in, *arguments, **options).to(x.dtype), h_post, h_res)
        return written


def _have_only_parts(layers: nn.ModuleList) -> bool:
    """Return whether there are layers, and a call of any does no more than its parts do."""
    return len(layers) > 0 and not hooks_of_all._has_any_global_hook() and all(map(_has_only_parts, layers))


def _has_only_parts(layer: nn.Module) -> bool:
    own = vars(layer)
    if type(layer) is not HyperConnection or "forward" in own or own.get("_compiled_call_impl") is not None:
        return False
    if layer.mixer == "given":
        return False
    return not any(own[name] for name in _HOOKS)
