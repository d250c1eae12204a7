"""Weights in this package's layout, together with the options that they were trained with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, NamedTuple, Self, TypeVar

import torch
from torch import nn

from mhc.convert.fold import fold_gamma
from mhc.convert.layout import check_shape, streams_of
from mhc.functional import LIGER, mhc_head, mhc_post, mhc_pre, sinkhorn
from mhc.module import HyperConnection, HyperHead
from mhc.ops import sinkhorn as sinkhorn_op
from mhc.single_pass import SinglePassConnection

FORMS = (*sinkhorn_op.FORMS, LIGER)
_TENSORS = ("phi", "alpha", "bias", "gamma")
_Module = TypeVar("_Module", bound=nn.Module)


class Coefficients(NamedTuple):
    """``h_in`` is the layer's input; ``h_post`` and ``h_res`` (after Sinkhorn) are what ``mhc_post`` takes."""

    h_in: torch.Tensor
    h_post: torch.Tensor
    h_res: torch.Tensor


@dataclass(frozen=True, eq=False)
class _Weights:
    phi: torch.Tensor
    alpha: torch.Tensor
    bias: torch.Tensor
    gamma: torch.Tensor | None = None
    norm_eps: float = 1e-6
    pre_eps: float = 1e-6

    @property
    def streams(self) -> int:
        """Return n."""
        raise NotImplementedError

    @property
    def hidden(self) -> int:
        """Return the width of one stream."""
        return self.phi.shape[1] // self.streams

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors by the names of a module's parameters; gamma only where there is one."""
        tensors = {"phi": self.phi, "alpha": self.alpha, "bias": self.bias}
        return tensors if self.gamma is None else {**tensors, "gamma": self.gamma}

    @property
    def wide(self) -> dict[str, torch.Tensor]:
        """Return the tensors in fp32, which is exact; gradients are rounded to the dtypes of the narrower ones."""
        return {name: tensor.float() for name, tensor in self.tensors.items()}

    @property
    def options(self) -> dict[str, Any]:
        """Return all but the tensors, by the names of a module's arguments."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _TENSORS}

    @classmethod
    def of_module(cls, module: nn.Module) -> Self:
        """Return the weights of a module (:class:`mhc.HyperConnection`, :class:`mhc.HyperHead`), as copies.

        The weight of a norm before the layer is the layer's in every layout: take the module's ``norm_weight``.
        """
        values = {field.name: getattr(module, field.name) for field in fields(cls)}
        tensors = {name: values[name].detach().clone() for name in _TENSORS if values[name] is not None}
        return cls(**{**values, **tensors})

    def folded(self) -> Self:
        """Return these weights without gamma: it is folded into phi (:func:`fold_gamma`)."""
        return self if self.gamma is None else replace(self, phi=fold_gamma(self.phi, self.gamma), gamma=None)

    def _load(self, module: _Module) -> _Module:
        """Give the module, made without storage, copies of the tensors in the narrowest dtype that holds them all."""
        dtype = reduce(torch.promote_types, (tensor.dtype for tensor in self.tensors.values()))
        copies = {name: tensor.detach().to(dtype, copy=True) for name, tensor in self.tensors.items()}
        module.load_state_dict(copies, strict=False, assign=True)
        return module

    def _check(self, gates: int) -> None:
        owner, (mixes, width) = type(self).__name__, self.phi.shape
        if width < 1 or width % self.streams:
            raise ValueError(f"{owner}: phi has {width} columns; {self.streams} streams of one width need a multiple")
        shapes = {"alpha": (gates,), "bias": (mixes,), "gamma": (self.streams, self.hidden)}
        for name, tensor in self.tensors.items():
            if name in shapes:
                check_shape(owner, name, tensor, shapes[name], self.phi)


@dataclass(frozen=True, eq=False)
class ConnectionWeights(_Weights):
    """The weights of one hyper-connection, in the layout of :func:`mhc.mhc_pre`, and its options.

    Args:
        phi: ``[n²+2n, n·hidden]``, rows in the order pre, post, res; ``h_res[i, j]`` weighs stream j in stream i.
        alpha: ``[3]``.
        bias: ``[n²+2n]``, in the order of phi's rows.
        gamma: RMSNorm weight ``[n, hidden]``, or None for ones.
        norm_eps: added to the mean square, inside the root.
        pre_eps: added to h_pre.
        post_scale: what the sigmoid of h_post is multiplied by.
        iterations: of Sinkhorn.
        sinkhorn_eps: of Sinkhorn; None takes the form's own, 0 for ``paper`` and 1e-6 for the others.
        form: of Sinkhorn: ``paper``, ``deepseek`` or ``liger``. The last is ``deepseek`` on the transposed matrix.

    Raises:
        ValueError: a shape does not fit, or an option has no such value.
    """

    post_scale: float = 2.0
    iterations: int = 20
    sinkhorn_eps: float | None = None
    form: str = "paper"

    def __post_init__(self) -> None:
        """Check the shapes and the options."""
        if self.phi.dim() != 2 or streams_of(self.phi.shape[0]) is None:
            raise ValueError(f"ConnectionWeights: phi has shape {tuple(self.phi.shape)}; it needs [n²+2n, n·hidden]")
        self._check(gates=3)
        if self.form not in FORMS:
            raise ValueError(f"ConnectionWeights: form is {self.form!r}; it needs one of {', '.join(FORMS)}")
        if self.iterations < 1:
            raise ValueError(f"ConnectionWeights: iterations is {self.iterations}; it needs at least 1")

    @property
    def streams(self) -> int:
        """Return n; phi has n² + 2n rows."""
        return streams_of(self.phi.shape[0]) or 0

    def coefficients(self, x: torch.Tensor, *, precision: str = "fp32", backend: str | None = None) -> Coefficients:
        """Compute ``mhc_pre`` and ``sinkhorn`` of the streams ``[..., n, hidden]`` with these weights and options.

        ``precision`` and ``backend`` mean the same as for :func:`mhc.mhc_pre`.
        """
        eps = {"norm_eps": self.norm_eps, "pre_eps": self.pre_eps, "post_scale": self.post_scale}
        h_in, h_post, logits = mhc_pre(x, **self.wide, **eps, precision=precision, backend=backend)
        options = {"iterations": self.iterations, "eps": self.sinkhorn_eps, "form": self.form}
        return Coefficients(h_in, h_post, sinkhorn(logits, **options, backend=backend))

    def module(self, layer: nn.Module, norm_weight: torch.Tensor | None = None, **options: Any) -> HyperConnection:
        """Return ``layer`` in a :class:`mhc.HyperConnection` with copies of these weights, ready to train.

        With ``norm_weight``, ``[hidden]``, the module has the RMSNorm before the layer (``norm=True``), which the
        wrapped layer must not apply again. ``norm_eps`` is of both norms. No layout has this weight among those of a
        hyper-connection: in a model it is the layer's, ``attn_norm`` or ``ffn_norm`` in DeepSeek's.

        ``options`` are those that the weights have not, such as ``precision`` and ``backend``. The parameters are on
        the device of the weights.

        Raises:
            ValueError: ``norm_weight`` has another shape, or ``norm`` is true without it or false with it.
        """
        given = norm_weight is not None
        if options.pop("norm", given) != given:
            raise ValueError(
                "ConnectionWeights.module: norm=True needs norm_weight, the weight of the RMSNorm before the layer, "
                "and norm_weight needs norm=True; a hyper-connection's weights do not have it, so it must be given"
            )
        if norm_weight is None:
            return self._wrap(HyperConnection, layer, **options)
        return self._with_norm("module", self._wrap(HyperConnection, layer, norm=True, **options), norm_weight)

    def single_pass(self, layer: nn.Module, norm_weight: torch.Tensor, **options: Any) -> SinglePassConnection:
        """Return the same as a part of an :class:`mhc.SinglePassStack`: DeepSeek-V4.1's form.

        Here the norm before the layer is always in the module.

        Raises:
            ValueError: ``norm_weight`` has another shape.
        """
        return self._with_norm("single_pass", self._wrap(SinglePassConnection, layer, **options), norm_weight)

    def _wrap(self, kind: type[_Module], layer: nn.Module, **options: Any) -> _Module:
        made = {**self.options, "gamma": self.gamma is not None, "device": "meta"}
        return self._load(kind(layer, self.streams, self.hidden, **made, **options))

    def _with_norm(self, caller: str, module: _Module, weight: torch.Tensor) -> _Module:
        """Give the module a copy of the weight of the norm before the layer."""
        check_shape(f"ConnectionWeights.{caller}", "norm_weight", weight, (self.hidden,), self.phi)
        module.norm_weight = nn.Parameter(weight.detach().clone())
        return module

    def apply(
        self,
        x: torch.Tensor,
        layer: Callable[[torch.Tensor], torch.Tensor],
        *,
        precision: str = "fp32",
        backend: str | None = None,
    ) -> torch.Tensor:
        """Compute the whole connection around ``layer``, as :class:`mhc.HyperConnection` does."""
        h_in, h_post, h_res = self.coefficients(x, precision=precision, backend=backend)
        return mhc_post(x, layer(h_in).to(x.dtype), h_post, h_res, backend=backend)


@dataclass(frozen=True, eq=False)
class HeadWeights(_Weights):
    """The weights of a head, in the layout of :func:`mhc.mhc_head`, and its options.

    Args:
        phi: ``[n, n·hidden]``.
        alpha: ``[1]``.
        bias: ``[n]``.
        gamma: RMSNorm weight ``[n, hidden]``, or None for ones.
        norm_eps: added to the mean square, inside the root.
        pre_eps: added to the weights.

    Raises:
        ValueError: a shape does not fit.
    """

    def __post_init__(self) -> None:
        """Check the shapes."""
        if self.phi.dim() != 2 or not self.phi.shape[0]:
            raise ValueError(f"HeadWeights: phi has shape {tuple(self.phi.shape)}; it needs [n, n·hidden]")
        self._check(gates=1)

    @property
    def streams(self) -> int:
        """Return n, the rows of phi."""
        return self.phi.shape[0]

    def module(self, **options: Any) -> HyperHead:
        """Return a :class:`mhc.HyperHead` with copies of these weights; ``options`` are those that they have not."""
        made = {**self.options, "gamma": self.gamma is not None, "device": "meta"}
        return self._load(HyperHead(self.streams, self.hidden, **made, **options))

    def read(self, x: torch.Tensor, *, precision: str = "fp32", backend: str | None = None) -> torch.Tensor:
        """Compute ``mhc_head`` of the streams ``[..., n, hidden]`` with these weights and options.

        ``precision`` and ``backend`` mean the same as for :func:`mhc.mhc_head`.
        """
        eps = {"norm_eps": self.norm_eps, "pre_eps": self.pre_eps}
        return mhc_head(x, **self.wide, **eps, precision=precision, backend=backend)
