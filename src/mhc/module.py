"""Modules: ``HyperConnection``, a layer whose residual connection is mHC's, and ``HyperHead`` after the last one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from mhc import mixers
from mhc.functional import (
    MhcCoefficients,
    MhcPre,
    can_post_pre,
    mhc_coefficients,
    mhc_head,
    mhc_post,
    mhc_post_pre,
    mhc_pre,
    mhc_read,
    read_with_x,
    sinkhorn,
)
from mhc.recompute import current

_SINKHORN = {"iterations": 20, "sinkhorn_eps": None, "form": "paper"}  # the defaults of what one mixer alone has


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

    def __prepare_scriptable__(self) -> Any:
        """Raise: this is what ``torch.jit.script`` calls first."""
        raise NotImplementedError(
            f"{type(self).__name__}: TorchScript does not have its operators; export the model with torch.export"
        )

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
        norm: whether an RMSNorm with a weight stands before the layer, in the operator that reads.
        mixer: what makes ``h_res``: ``sinkhorn``, ``permutations``, ``kronecker``, ``identity`` or ``given``
            (:mod:`mhc.mixers`). With ``given`` each call takes ``h_res``, ``[..., n, n]`` fp32.
        main_grad: add the gradients of narrow parameters up in fp32 in ``main_grad`` (:mod:`mhc.parameters`).
        backend: for all operators; None chooses by the device.
        device, dtype: of the parameters. Whatever their dtype, the mapping is computed in fp32.

    Under autocast the layer may return another dtype than x has; the result is then cast to x's.
    :func:`mhc.recomputation` throws the activations of a block of such layers away.
    """

    norm_weight: nn.Parameter | None

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
        norm: bool = False,
        mixer: str = "sinkhorn",
        main_grad: bool = False,
        backend: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._check_mixer(mixer, {"iterations": iterations, "sinkhorn_eps": sinkhorn_eps, "form": form})
        super().__init__(
            streams,
            hidden,
            2 * max(streams, 0) + mixers.logits_of(mixer, max(streams, 0)),
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
        weight = nn.Parameter(torch.empty(hidden, device=device, dtype=dtype)) if norm else None
        self.register_parameter("norm_weight", weight)
        self.iterations, self.form, self.sinkhorn_eps, self.post_scale = iterations, form, sinkhorn_eps, post_scale
        self.mixer = mixer
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the parameters to their initial values; phi is random."""
        super().reset_parameters()
        if self.norm_weight is not None:
            nn.init.ones_(self.norm_weight)

    def forward(self, x: torch.Tensor, *arguments: Any, **options: Any) -> torch.Tensor:
        """Compute ``[..., n, hidden]`` to the same shape and dtype; the other arguments are the layer's.

        With the mixer ``given``, the keyword ``h_res`` is this module's.
        """
        given = (options.pop("h_res", None),) if self.mixer == "given" else ()
        if not torch.compiler.is_compiling():
            block = current()
            if block is not None and torch.is_grad_enabled():
                if given:
                    raise ValueError("mhc.recomputation: it cannot make again an h_res that is given (mixer='given')")
                return block.run(self, x, arguments, options)
        x, (h_in, h_post, h_res) = self.read_with_x(x, *given)
        y = self.layer(h_in, *arguments, **options)
        return self.write(x, y if y.dtype == x.dtype else y.to(x.dtype), h_post, h_res)

    def read(self, x: torch.Tensor, h_res: torch.Tensor | None = None) -> MhcPre:
        """Return the layer's input, and the weights that write its output and mix the streams.

        ``h_res`` is for the mixer ``given`` alone.
        """
        return self.read_with_x(x, h_res)[1]

    def read_with_x(self, x: torch.Tensor, h_res: torch.Tensor | None = None) -> tuple[torch.Tensor, MhcPre]:
        """Return x to hand on to :meth:`write` (:func:`mhc.functional.read_with_x`), and what :meth:`read` gives."""
        if (h_res is None) == (self.mixer == "given"):
            raise ValueError(f"HyperConnection: mixer is {self.mixer!r}; h_res is for 'given', which needs one")
        if self.mixer != "sinkhorn":
            return x, self._read_and_mix(x, h_res)
        results: tuple[torch.Tensor, MhcPre] = self._mapped(
            read_with_x,
            x,
            norm_weight=self.norm_weight,
            post_scale=self.post_scale,
            iterations=self.iterations,
            sinkhorn_eps=self.sinkhorn_eps,
            form=self.form,
        )
        return results

    def _read_and_mix(self, x: torch.Tensor, h_res: torch.Tensor | None) -> MhcPre:
        """Return what :meth:`read` gives where another mixer than Sinkhorn makes the matrix, or it is given.

        A mixer of at most n² logits takes the kernels of ``mhc_pre``, with rows of zeros in phi for those that it has
        not. They read the streams once.
        """
        count = self.phi.shape[0] - 2 * self.streams
        lacking = self.streams * self.streams - count
        if lacking >= 0:

            def padded(x: torch.Tensor, phi: Any, alpha: Any, bias: Any, *others: Any, **options: Any) -> MhcPre:
                phi, bias = (torch.cat([each, each.new_zeros(lacking, *each.shape[1:])]) for each in (phi, bias))
                return mhc_pre(x, phi, alpha, bias, *others, **options)

            h_in, h_post, square = self._mapped(padded, x, norm_weight=self.norm_weight, post_scale=self.post_scale)
            logits = square.flatten(-2)[..., :count]
        else:
            made: MhcCoefficients = self._mapped(mhc_coefficients, x, post_scale=self.post_scale)
            h_in, h_post, logits = mhc_read(x, made.h_pre, backend=self.backend), made.h_post, made.logits
            h_in = self._normed(h_in)
        return MhcPre(h_in, h_post, mixers.matrix_of(self.mixer, logits, self.streams) if h_res is None else h_res)

    def _normed(self, read: torch.Tensor) -> torch.Tensor:
        """Return what is read behind the RMSNorm, if there is one, where no operator has that inside."""
        if self.norm_weight is None:
            return read
        wide = read.float()
        s = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + self.norm_eps)
        return (wide * s * self.norm_weight.float()).to(read.dtype)

    def write(self, x: torch.Tensor, y: torch.Tensor, h_post: torch.Tensor, h_res: torch.Tensor) -> torch.Tensor:
        """Return the new streams of the layer's output and what :meth:`read` gave."""
        return mhc_post(x, y, h_post, h_res, backend=self.backend)

    def read_after(
        self, x: torch.Tensor, y: torch.Tensor, h_post: torch.Tensor, h_res: torch.Tensor
    ) -> tuple[torch.Tensor, MhcPre]:
        """Return what :meth:`write` of the layer before gives, and what :meth:`read` of this layer gives for that.

        Without gradients it is :func:`mhc.mhc_post_pre`, where the backend has it, the mixer is Sinkhorn and there is
        no norm. With them it is :func:`mhc.mhc_post` and then the read, which adds a gradient in the memory of another.
        """
        apart = self.mixer != "sinkhorn" or self.norm_weight is not None or torch.is_grad_enabled()
        if apart or not can_post_pre(self.backend, x.device):
            return self.read_with_x(mhc_post(x, y, h_post, h_res, backend=self.backend))

        def both(x: torch.Tensor, *parameters: Any, **options: Any) -> tuple[torch.Tensor, MhcPre]:
            return mhc_post_pre(x, y, h_post, h_res, *parameters, **options)

        out, (h_in, next_h_post, logits) = self._mapped(both, x, post_scale=self.post_scale)
        options = {"iterations": self.iterations, "eps": self.sinkhorn_eps, "form": self.form}
        return out, MhcPre(h_in, next_h_post, sinkhorn(logits, **options, backend=self.backend))

    def _initial_bias(self) -> torch.Tensor:
        kept_apart = mixers.initial_logits(self.mixer, self.streams)
        return torch.cat([super()._initial_bias(), torch.zeros(self.streams), kept_apart])

    @staticmethod
    def _check_mixer(mixer: str, options: dict[str, Any]) -> None:
        """Raise if an option of Sinkhorn is given to another mixer."""
        if mixer != "sinkhorn" and options != _SINKHORN:
            named = ", ".join(f"{name}={value!r}" for name, value in options.items() if value != _SINKHORN[name])
            raise ValueError(f"HyperConnection: mixer {mixer!r} has no iterations of Sinkhorn, and there is {named}")

    def extra_repr(self) -> str:
        """Return what ``print`` shows after the layer's name."""
        defaults = {"iterations": 20, "post_scale": 2.0, "form": "paper", "mixer": "sinkhorn", "precision": "fp32"}
        norm = {} if self.norm_weight is None else {"norm": True}
        return _text(self, norm, **defaults, main_grad=False, backend=None)


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
        return _text(self, {}, precision="fp32", main_grad=False, backend=None)


def _text(module: _Mapping, others: dict[str, Any], **defaults: Any) -> str:
    """Return the sizes, the backend, and the options that are not the defaults; ``others`` are no attributes."""
    shown = {"streams": module.streams, "hidden": module.hidden, **others}
    if module.gamma is None:
        shown["gamma"] = False
    for name, default in defaults.items():
        value = getattr(module, name)
        if value != default or name == "backend":
            shown[name] = value
    return ", ".join(f"{name}={value}" for name, value in shown.items())
