"""Modules: ``HyperConnection``, a layer whose residual connection is mHC's, and ``HyperHead`` after the last one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mhc.functional import MhcPre, can_post_pre, mhc_head, mhc_post, mhc_post_pre, read_with_x, sinkhorn
from mhc.recompute import current


class _Mapping(nn.Module):
    """The parameters and options of a dynamic mapping from the streams to ``mixes`` numbers with ``gates`` gates."""

    gamma: nn.Parameter | None

    def __init__(
        self,
        streams: int,
        hidden: int,
        mixes: int,
        gates: int,
        *,
        gate: float,
        gamma: bool,
        norm_eps: float,
        pre_eps: float,
        precision: str,
        main_grad: bool,
        backend: str | None,
        **factory: Any,
    ) -> None:
        super().__init__()
        if streams < 1 or hidden < 1:
            raise ValueError(f"{type(self).__name__}: {streams} streams of {hidden}; it needs at least one of each")
        self.streams, self.hidden, self.gate = streams, hidden, gate
        self.norm_eps, self.pre_eps, self.precision, self.main_grad = norm_eps, pre_eps, precision, main_grad
        self.backend = backend
        self.phi = nn.Parameter(torch.empty(mixes, streams * hidden, **factory))
        self.alpha = nn.Parameter(torch.empty(gates, **factory))
        self.register_parameter("gamma", nn.Parameter(torch.empty(streams, hidden, **factory)) if gamma else None)
        self.bias = nn.Parameter(torch.empty(mixes, **factory))

    def reset_parameters(self) -> None:
        """Set the parameters to their initial values; phi is random."""
        nn.init.normal_(self.phi, std=1 / math.sqrt(self.streams * self.hidden))
        nn.init.constant_(self.alpha, self.gate)
        if self.gamma is not None:
            nn.init.ones_(self.gamma)
        with torch.no_grad():
            self.bias.copy_(self._initial_bias())

    def _mapped(self, operator: Callable[..., Any], x: torch.Tensor, **options: Any) -> Any:
        """Return what ``mhc_pre`` or ``mhc_head`` gives for x with these parameters and options."""
        return operator(
            x,
            self.phi,
            self.alpha,
            self.bias,
            self.gamma,
            norm_eps=self.norm_eps,
            pre_eps=self.pre_eps,
            precision=self.precision,
            main_grad=self.main_grad,
            backend=self.backend,
            **options,
        )

    def _initial_bias(self) -> torch.Tensor:
        """Return the bias of a mapping that reads every stream with 1/n."""
        n = self.streams
        return torch.full((n,), -math.log(n - 1) if n > 1 else 4.0)  # σ of it is 1/n


class HyperConnection(_Mapping):
    """Wrap ``layer`` (``[..., hidden]`` to ``[..., hidden]``) in manifold-constrained hyper-connections::

        h_in, h_post, h_res = mhc_pre(x)
        out = mhc_post(x, layer(h_in), h_post, sinkhorn(h_res))

    It takes and gives the residual streams ``[..., n, hidden]``. At its initialisation the dynamic part is off by
    ``gate``, every stream is read with 1/n and written with 1, and the streams are kept apart (``h_res`` near the
    identity).

    ``iterations``, ``gate``, ``post_scale`` and ``form`` have the paper's values as defaults (arXiv 2512.24880,
    sections 4.2 and A.1: 20, 0.01, 2, columns first and rows last); the paper has four streams. Its kernels have gamma
    folded into phi, which is ``gamma=False`` here. The small constants, the initial phi and the initial bias are this
    package's.

    Args:
        layer: the wrapped module.
        streams: n, at least 1.
        hidden: the width of one stream.
        iterations: of Sinkhorn.
        gate: the initial alpha.
        gamma: whether there is a weight of the RMSNorm.
        norm_eps, pre_eps, sinkhorn_eps: the small constants of the operators.
        post_scale: the largest weight with which the layer's output is written.
        precision: of the products with phi, ``fp32`` or ``tf32``; the paper computes them in TF32.
        form: of Sinkhorn, ``paper``, ``deepseek`` or ``liger``.
        main_grad: add the gradients of narrow parameters up in fp32 in ``main_grad`` (:mod:`mhc.parameters`).
        backend: for all operators; None chooses by the device.
        device, dtype: of the parameters. Whatever their dtype, the mapping is computed in fp32.

    Under autocast the layer may return another dtype than x has; the result is then cast to x's.
    :func:`mhc.recomputation` throws the activations of a block of such layers away.
    """

    def __init__(
        self,
        layer: nn.Module,
        streams: int,
        hidden: int,
        *,
        iterations: int = 20,
        gate: float = 0.01,
        gamma: bool = True,
        norm_eps: float = 1e-6,
        pre_eps: float = 1e-6,
        sinkhorn_eps: float | None = None,
        post_scale: float = 2.0,
        precision: str = "fp32",
        form: str = "paper",
        main_grad: bool = False,
        backend: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            streams,
            hidden,
            streams * (streams + 2),
            3,
            gate=gate,
            gamma=gamma,
            norm_eps=norm_eps,
            pre_eps=pre_eps,
            precision=precision,
            main_grad=main_grad,
            backend=backend,
            device=device,
            dtype=dtype,
        )
        self.layer = layer
        self.iterations, self.form, self.sinkhorn_eps, self.post_scale = iterations, form, sinkhorn_eps, post_scale
        self.reset_parameters()

    def forward(self, x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """Compute ``[..., n, hidden]`` to the same shape and dtype; the other arguments are the layer's."""
        if not torch.compiler.is_compiling():
            block = current()
            if block is not None and torch.is_grad_enabled():
                return block.run(self, x, arguments, options)
        x, (h_in, h_post, h_res) = self.read_with_x(x)
        y = self.layer(h_in, *arguments, **options)
        return self.write(x, y if y.dtype == x.dtype else y.to(x.dtype), h_post, h_res)

    def read(self, x: torch.Tensor) -> MhcPre:
        """Return the layer's input, and the weights that write its output and mix the streams."""
        return self.read_with_x(x)[1]

    def read_with_x(self, x: torch.Tensor) -> tuple[torch.Tensor, MhcPre]:
        """Return x to hand on to :meth:`write` (:func:`mhc.functional.read_with_x`), and what :meth:`read` gives."""
        results: tuple[torch.Tensor, MhcPre] = self._mapped(
            read_with_x,
            x,
            post_scale=self.post_scale,
            iterations=self.iterations,
            sinkhorn_eps=self.sinkhorn_eps,
            form=self.form,
        )
        return results

    def write(self, x: torch.Tensor, y: torch.Tensor, h_post: torch.Tensor, h_res: torch.Tensor) -> torch.Tensor:
        """Return the new streams of the layer's output and what :meth:`read` gave."""
        return mhc_post(x, y, h_post, h_res, backend=self.backend)

    def read_after(
        self, x: torch.Tensor, y: torch.Tensor, h_post: torch.Tensor, h_res: torch.Tensor
    ) -> tuple[torch.Tensor, MhcPre]:
        """Return what :meth:`write` of the layer before gives, and what :meth:`read` of this layer gives for that.

        It is :func:`mhc.mhc_post_pre` where the backend has it; elsewhere, :func:`mhc.mhc_post` and then the read.
        """
        if not can_post_pre(self.backend, x.device):
            return self.read_with_x(mhc_post(x, y, h_post, h_res, backend=self.backend))

        def both(x: torch.Tensor, *parameters: Any, **options: Any) -> tuple[torch.Tensor, MhcPre]:
            return mhc_post_pre(x, y, h_post, h_res, *parameters, **options)

        out, (h_in, next_h_post, logits) = self._mapped(both, x, post_scale=self.post_scale)
        options = {"iterations": self.iterations, "eps": self.sinkhorn_eps, "form": self.form}
        return out, MhcPre(h_in, next_h_post, sinkhorn(logits, **options, backend=self.backend))

    def _initial_bias(self) -> torch.Tensor:
        n = self.streams
        kept_apart = 8.0 * torch.eye(n) - 4.0
        return torch.cat([super()._initial_bias(), torch.zeros(n), kept_apart.flatten()])

    def extra_repr(self) -> str:
        """Return what ``print`` shows after the layer's name."""
        defaults = {"iterations": 20, "post_scale": 2.0, "form": "paper", "precision": "fp32", "main_grad": False}
        return _text(self, **defaults, backend=None)


class HyperHead(_Mapping):
    """Read the streams out after the last layer, ``[..., n, hidden]`` to ``[..., hidden]`` (:mod:`mhc.ops.mhc_head`).

    At its initialisation it is the mean of the streams, off by ``gate``. The paper does not describe a head; this one
    is in DeepSeek's released code.

    Args:
        streams, hidden, gate, gamma, norm_eps, pre_eps, precision, main_grad, backend, device, dtype: as
            :class:`HyperConnection` has them.
    """

    def __init__(
        self,
        streams: int,
        hidden: int,
        *,
        gate: float = 0.01,
        gamma: bool = True,
        norm_eps: float = 1e-6,
        pre_eps: float = 1e-6,
        precision: str = "fp32",
        main_grad: bool = False,
        backend: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            streams,
            hidden,
            streams,
            1,
            gate=gate,
            gamma=gamma,
            norm_eps=norm_eps,
            pre_eps=pre_eps,
            precision=precision,
            main_grad=main_grad,
            backend=backend,
            device=device,
            dtype=dtype,
        )
        self.reset_parameters()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute ``[..., n, hidden]`` to ``[..., hidden]`` in x's dtype."""
        out: torch.Tensor = self._mapped(mhc_head, x)
        return out

    def extra_repr(self) -> str:
        """Return what ``print`` shows."""
        return _text(self, precision="fp32", main_grad=False, backend=None)


def _text(module: _Mapping, **defaults: Any) -> str:
    """Return the sizes, the backend, and the options that are not the defaults."""
    shown = {"streams": module.streams, "hidden": module.hidden}
    if module.gamma is None:
        shown["gamma"] = False
    for name, default in defaults.items():
        value = getattr(module, name)
        if value != default or name == "backend":
            shown[name] = value
    return ", ".join(f"{name}={value}" for name, value in shown.items())
