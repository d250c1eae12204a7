"""Random inputs of the operators on a device; of the sizes and scales that the conformance suite has."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch

from mhc.backends import load
from mhc.ops import (
    expand,
    mhc_coefficients,
    mhc_head,
    mhc_post,
    mhc_post_pre,
    mhc_pre,
    mhc_pre_norm,
    mhc_pre_norm_fp8,
    mhc_read,
    mhc_single_pass,
    mhc_single_pass_fp8,
    sinkhorn,
)

OPS: Mapping[str, Any] = {
    "mhc_pre": mhc_pre,
    "mhc_pre_norm": mhc_pre_norm,
    "mhc_pre_norm_fp8": mhc_pre_norm_fp8,
    "sinkhorn": sinkhorn,
    "mhc_post": mhc_post,
    "mhc_post_pre": mhc_post_pre,
    "mhc_head": mhc_head,
    "mhc_read": mhc_read,
    "mhc_coefficients": mhc_coefficients,
    "mhc_single_pass": mhc_single_pass,
    "mhc_single_pass_fp8": mhc_single_pass_fp8,
    "expand": expand,
}
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
PARAMETERS = {"phi", "alpha", "bias", "gamma", "norm_weight"}  # their gradients are sums over tokens


class Draw:
    """The tensors of one copy; every copy has other numbers."""

    def __init__(self, axes: Mapping[str, Any], device: torch.device, seed: int) -> None:
        self.tokens, self.n = int(axes["tokens"]), int(axes["streams"])
        self.hidden = int(axes.get("hidden", 0))
        self.dtype = DTYPES[axes.get("dtype", "fp32")]
        self.gamma = bool(axes.get("gamma", False))
        self.precision = str(axes.get("precision", "fp32"))
        self.form = str(axes.get("form", "paper"))
        self._device = device
        self._generator = torch.Generator(device).manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0, mean: float = 0.0) -> torch.Tensor:
        """Return normal numbers in fp32."""
        values = torch.empty(shape, device=self._device)
        return values.normal_(mean, scale, generator=self._generator)

    def data(self, *shape: int, scale: float = 1.0) -> torch.Tensor:
        """Return normal numbers in the dtype of the streams."""
        return self.normal(*shape, scale=scale).to(self.dtype)

    def x(self) -> torch.Tensor:
        """Return the streams."""
        return self.data(self.tokens, self.n, self.hidden)

    def mapping(self, rows: int, gates: int) -> tuple[Any, ...]:
        """Return phi, alpha, bias and gamma of a layer near its initialisation."""
        width = self.n * self.hidden
        bias = self.normal(rows, scale=0.2)
        bias[: self.n] += -math.log(self.n - 1) - 1.0 if self.n > 1 else 1.0
        return (
            self.normal(rows, width, scale=1 / math.sqrt(width)),
            self.normal(gates, scale=0.05, mean=0.4),
            bias,
            self.normal(self.n, self.hidden, scale=0.3, mean=1.0) if self.gamma else None,
        )

    def inputs(self, op: str, direction: str) -> Any:
        """Return the inputs of an operator."""
        return getattr(self, f"_{op}")(direction == "backward")

    def _mhc_pre(self, backward: bool) -> Any:
        tensors = (self.x(), *self.mapping(self.n * (self.n + 2), 3))
        forward = mhc_pre.MhcPreInputs(*tensors, precision=self.precision)
        if not backward:
            return forward
        return mhc_pre.MhcPreBackwardInputs(
            *tensors,
            *_saved("mhc_pre", forward),
            *self._grads_of_pre(),
            precision=self.precision,
        )

    def _grads_of_pre(self) -> tuple[torch.Tensor, ...]:
        """Return the gradients of h_in, h_post and h_res."""
        grads = self.normal(self.tokens, self.n), self.normal(self.tokens, self.n, self.n)
        return self.data(self.tokens, self.hidden), *grads

    def _mhc_pre_norm(self, backward: bool) -> Any:
        tensors = (self.x(), *self.mapping(self.n * (self.n + 2), 3), self._norm_weight())
        forward = mhc_pre_norm.MhcPreNormInputs(*tensors, precision=self.precision)
        if not backward:
            return forward
        exact = load("reference", "mhc_pre_norm").golden(forward)  # type: ignore[attr-defined]
        kept = (exact.read.to(self.dtype), exact.s.float(), exact.m.float(), exact.r.float())
        grads = self._grads_of_pre()
        return mhc_pre_norm.MhcPreNormBackwardInputs(*tensors, *kept, *grads, precision=self.precision)

    def _mhc_pre_norm_fp8(self, _: bool) -> Any:
        return mhc_pre_norm_fp8.MhcPreNormFp8Inputs(*self._mhc_pre_norm(False))

    def _norm_weight(self) -> torch.Tensor:
        return self.normal(self.hidden, scale=0.05, mean=0.2)

    def _mhc_head(self, backward: bool) -> Any:
        tensors = (self.x(), *self.mapping(self.n, 1))
        forward = mhc_head.MhcHeadInputs(*tensors, precision=self.precision)
        if not backward:
            return forward
        kept = _saved("mhc_head", forward)
        grad = self.data(self.tokens, self.hidden)
        return mhc_head.MhcHeadBackwardInputs(*tensors, *kept, grad, precision=self.precision)

    def _sinkhorn(self, backward: bool) -> Any:
        shape = (self.tokens, self.n, self.n)
        constants = {"iterations": 20, "eps": sinkhorn.FORMS[self.form], "form": self.form}
        logits = self.normal(*shape)
        if not backward:
            return sinkhorn.SinkhornInputs(logits, **constants)
        return sinkhorn.SinkhornBackwardInputs(logits, self.normal(*shape), **constants)

    def _mhc_post(self, backward: bool) -> Any:
        tensors = self._written()
        if not backward:
            return mhc_post.MhcPostInputs(*tensors)
        return mhc_post.MhcPostBackwardInputs(*tensors, self.data(self.tokens, self.n, self.hidden))

    def _written(self) -> tuple[torch.Tensor, ...]:
        """Return x, y, h_post and h_res."""
        return (
            self.x(),
            self.data(self.tokens, self.hidden, scale=0.5),
            self.normal(self.tokens, self.n, scale=0.05, mean=0.25),
            self.normal(self.tokens, self.n, self.n, scale=0.05) + 0.4 * torch.eye(self.n, device=self._device),
        )

    def _mhc_post_pre(self, backward: bool) -> Any:
        tensors = (*self._written(), *self.mapping(self.n * (self.n + 2), 3))
        forward = mhc_post_pre.MhcPostPreInputs(*tensors, precision=self.precision)
        if not backward:
            return forward
        exact = load("reference", "mhc_post_pre").golden(forward)  # type: ignore[attr-defined]
        return mhc_post_pre.MhcPostPreBackwardInputs(
            *tensors,
            exact.out.to(self.dtype),
            exact.m.float(),
            exact.r.float(),
            self.data(self.tokens, self.hidden),
            self.normal(self.tokens, self.n),
            self.normal(self.tokens, self.n, self.n),
            self.data(self.tokens, self.n, self.hidden),
            precision=self.precision,
        )

    def _weights(self) -> torch.Tensor:
        """Return the weights of a read."""
        return self.normal(self.tokens, self.n, scale=0.05, mean=0.25)

    def _mhc_read(self, backward: bool) -> Any:
        tensors = (self.x(), self._weights())
        if not backward:
            return mhc_read.MhcReadInputs(*tensors)
        return mhc_read.MhcReadBackwardInputs(*tensors, self.data(self.tokens, self.hidden))

    def _mhc_coefficients(self, backward: bool) -> Any:
        tensors = (self.x(), *self.mapping(self.n * (self.n + 2), 3))
        forward = mhc_coefficients.MhcCoefficientsInputs(*tensors, precision=self.precision)
        if not backward:
            return forward
        kept = _saved("mhc_coefficients", forward)
        return mhc_coefficients.MhcCoefficientsBackwardInputs(
            *tensors, *kept, *self._grads_of_coefficients(), precision=self.precision
        )

    def _mhc_single_pass(self, backward: bool) -> Any:
        tensors = (*self._written(), self._weights(), *self.mapping(self.n * (self.n + 2), 3), self._norm_weight())
        forward = mhc_single_pass.MhcSinglePassInputs(*tensors, precision=self.precision)
        if not backward:
            return forward
        exact = load("reference", "mhc_single_pass").golden(forward)  # type: ignore[attr-defined]
        return mhc_single_pass.MhcSinglePassBackwardInputs(
            *tensors,
            exact.out.to(self.dtype),
            exact.read.to(self.dtype),
            exact.s.float(),
            exact.m.float(),
            exact.r.float(),
            self.data(self.tokens, self.hidden),
            *self._grads_of_coefficients(),
            self.data(self.tokens, self.n, self.hidden),
            precision=self.precision,
        )

    def _mhc_single_pass_fp8(self, _: bool) -> Any:
        return mhc_single_pass_fp8.MhcSinglePassFp8Inputs(*self._mhc_single_pass(False))

    def _grads_of_coefficients(self) -> tuple[torch.Tensor, ...]:
        """Return the gradients of h_pre, h_post and n² logits."""
        return tuple(self.normal(self.tokens, columns) for columns in (self.n, self.n, self.n**2))

    def _expand(self, backward: bool) -> Any:
        if backward:
            return expand.ExpandBackwardInputs(self.data(self.tokens, self.n, self.hidden))
        return expand.ExpandInputs(self.data(self.tokens, self.hidden), self.n)


def _saved(op: str, forward: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ``m`` and ``r`` of the forward in fp32, as its kernels keep them."""
    exact = load("reference", op).golden(forward)
    return exact.m.float(), exact.r.float()


def nudged(inputs: Any, seed: int) -> Any:
    """Return the inputs in float64, each number off by one rounding error of fp32."""
    generator: dict[torch.device, torch.Generator] = {}
    values = []
    for value in inputs:
        if isinstance(value, torch.Tensor):
            source = generator.setdefault(value.device, torch.Generator(value.device).manual_seed(seed))
            sign = torch.randint(0, 2, value.shape, device=value.device, dtype=torch.int8, generator=source)
            value = value.double() * (1 + (2.0 * sign - 1) * 2.0**-24)
        values.append(value)
    return type(inputs)(*values)


def bytes_of(values: Any) -> int:
    """Return the bytes of the tensors among some values."""
    return sum(value.numel() * value.element_size() for value in values if isinstance(value, torch.Tensor))
