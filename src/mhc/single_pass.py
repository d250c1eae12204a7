"""The single-pass form of DeepSeek-V4.1: a layer reads the streams with the weights that the layer before it made."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mhc import mixers
from mhc.functional import (
    MhcCoefficients,
    expand,
    mhc_coefficients,
    mhc_post,
    mhc_read,
    mhc_single_pass,
    sinkhorn,
)
from mhc.module import HyperConnection


class SinglePassConnection(HyperConnection):
    """A layer of a :class:`SinglePassStack`: a mapping of the streams, and the weight of the RMSNorm before the layer.

    The arguments are as in :class:`HyperConnection`. It does not run alone: what it reads is a matter of the stack.
    """

    def __init__(self, layer: nn.Module, streams: int, hidden: int, **options: Any) -> None:
        super().__init__(layer, streams, hidden, norm=True, **options)
        if self.mixer == "given":
            raise ValueError("SinglePassConnection: it makes its h_res itself; mixer 'given' is for HyperConnection")

    def forward(self, *_: Any, **__: Any) -> torch.Tensor:
        """Raise: the stack calls the parts of its layers."""
        raise TypeError("SinglePassConnection: it is a part of a SinglePassStack, which calls it")

    def first(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, MhcCoefficients]:
        """Return the streams, the layer's input and the coefficients, for the first layer, from one stream."""
        streams = expand(x, self.streams, backend=self.backend)
        return streams, self._normed(x), self._mapped(mhc_coefficients, streams, post_scale=self.post_scale)

    def after(
        self, x: torch.Tensor, y: torch.Tensor, before: SinglePassConnection, made: MhcCoefficients
    ) -> tuple[torch.Tensor, torch.Tensor, MhcCoefficients]:
        """Return the same after the layer ``before``, which gave y and whose coefficients are ``made``."""

        def all_at_once(x: torch.Tensor, *mapping: Any, **options: Any) -> Any:
            matrix = before.mixed(made.logits)
            return mhc_single_pass(x, y, made.h_post, matrix, made.h_pre, *mapping, self.norm_weight, **options)

        results: tuple[torch.Tensor, torch.Tensor, MhcCoefficients]
        results = self._mapped(all_at_once, x, post_scale=self.post_scale)
        return results

    def mixed(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the residual matrix of the logits, ``[..., n, n]``."""
        if self.mixer != "sinkhorn":
            return mixers.matrix_of(self.mixer, logits, self.streams)
        options = {"iterations": self.iterations, "eps": self.sinkhorn_eps, "form": self.form}
        return sinkhorn(logits.unflatten(-1, (self.streams, self.streams)), **options, backend=self.backend)


class SinglePassStack(nn.ModuleList):
    """Run :class:`SinglePassConnection` modules one after the other, from one stream to one stream.

    In DeepSeek-V4.1 a layer reads the streams with the ``h_pre`` of the layer before it, behind an RMSNorm of its own::

        x, pre = expand(embedding), one-hot                      the first layer reads the first stream
        for each layer:
            h_pre, h_post, logits = mhc_coefficients(x)
            x   = mhc_post(x, layer(RMSNorm(mhc_read(x, pre))), h_post, sinkhorn(logits))
            pre = h_pre
        out = mhc_read(x, pre)                                   there is no head

    Between two layers stands one operator, :func:`mhc.mhc_single_pass`.
    """

    def forward(self, x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """Compute ``[..., hidden]`` to the same shape and dtype; every wrapped layer gets the other arguments."""
        if not len(self):
            raise ValueError("SinglePassStack: it has no layers")
        layer, *others = self
        streams, h_in, made = layer.first(x)
        for following in others:
            y = layer.layer(h_in, *arguments, **options).to(x.dtype)
            streams, h_in, made = following.after(streams, y, layer, made)
            layer = following
        y = layer.layer(h_in, *arguments, **options).to(x.dtype)
        streams = mhc_post(streams, y, made.h_post, layer.mixed(made.logits), backend=layer.backend)
        return mhc_read(streams, made.h_pre, backend=layer.backend)
