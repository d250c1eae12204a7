"""The specialisation and the inputs of an operator, made from a case's axes."""

from __future__ import annotations

import math
from typing import Any

import torch

import constants
from constants import LOUD
from kernel_matrix.job.case import RunningCase
from mhc.backends import load
from mhc.ops import (
    expand,
    mhc_coefficients,
    mhc_head,
    mhc_post,
    mhc_post_pre,
    mhc_pre,
    mhc_read,
    mhc_single_pass,
    sinkhorn,
)
from tensors import DTYPES

OPS = {
    "mhc_pre": mhc_pre,
    "sinkhorn": sinkhorn,
    "mhc_post": mhc_post,
    "mhc_post_pre": mhc_post_pre,
    "mhc_head": mhc_head,
    "mhc_read": mhc_read,
    "mhc_coefficients": mhc_coefficients,
    "mhc_single_pass": mhc_single_pass,
    "expand": expand,
}
_WITH_LOGITS = {
    "mhc_coefficients": mhc_coefficients.MhcCoefficientsSpec,
    "mhc_single_pass": mhc_single_pass.MhcSinglePassSpec,
}
_WITH_POST_SCALE = {"mhc_pre": mhc_pre.MhcPreSpec, "mhc_post_pre": mhc_post_pre.MhcPostPreSpec, **_WITH_LOGITS}


def constants_of(op: str, axes: dict[str, Any]) -> dict[str, Any]:
    """Return the constants of an operator: the paper's where :func:`constants.usual` says so, and others elsewhere."""
    if op in constants.WITHOUT:
        return {}
    usual = constants.usual(op, axes)
    if op == "sinkhorn":
        form = axes["form"]
        iterations = {"paper": 20 if usual else 7, "deepseek": 12 if usual else 20}[form]
        eps = sinkhorn.FORMS[form]
        return {"iterations": iterations, "eps": eps if usual else 100 * eps, "form": form}
    values = {"norm_eps": 1e-6 if usual else 1e-3, "pre_eps": 1e-6 if usual else 1e-2}
    return values | ({"post_scale": 2.0 if usual else 1.5} if op in _WITH_POST_SCALE else {})


def logits_of(axes: dict[str, Any]) -> int:
    """Return the logits of a case: of all permutations for few streams in fp32, of a matrix elsewhere."""
    n = axes["streams"]
    return math.factorial(n) if n <= 4 and axes["dtype"] == "fp32" else int(n * n)


def spec_of(op: str, axes: dict[str, Any]) -> Any:
    """Return the specialisation that a case which only compiles has: the same at every scale, as the code is."""
    n, values = axes["streams"], constants_of(op, axes | {"scale": 1})
    if op == "sinkhorn":
        return sinkhorn.SinkhornSpec(n, **values)
    shape = (n, axes["hidden"], DTYPES[axes["dtype"]])
    if op in _WITH_LOGITS:
        values["logits"] = logits_of(axes)
    if op in _WITH_POST_SCALE:
        return _WITH_POST_SCALE[op](*shape, axes["gamma"], precision=axes["precision"], **values)
    if op == "mhc_head":
        return mhc_head.MhcHeadSpec(*shape, axes["gamma"], precision=axes["precision"], **values)
    alone = {"mhc_post": mhc_post.MhcPostSpec, "mhc_read": mhc_read.MhcReadSpec, "expand": expand.ExpandSpec}
    return alone[op](*shape)


def inputs_of(case: RunningCase) -> Any:
    """Draw the inputs of the case's operator in float64 and round them once to their dtypes.

    From the scale :data:`LOUD` on, two tokens stand out: the first is padding, zeros in all that comes in, and the last
    is a hundred times as large as the others (a matrix of logits ten times).
    """
    return _Draw(case).inputs()


def nudged_of(case: RunningCase, inputs: Any, sample: int) -> Any:
    """Return the inputs in float64, each value off by one rounding error of fp32."""
    values = inputs._asdict()
    for name, value in values.items():
        if isinstance(value, torch.Tensor):
            values[name] = torch.from_numpy(case.nudge(name, value.double().numpy(), sample))
    return type(inputs)(**values)


def rounded_like(inputs: Any, values: Any) -> Any:
    """Return ``values`` in the dtypes of the inputs; a nudge stays in fp32, and vanishes in a narrower dtype."""
    pairs = zip(inputs, values, strict=True)
    return type(inputs)(*(b.to(a.dtype) if isinstance(a, torch.Tensor) else b for a, b in pairs))


def allocated(op: str, direction: str, inputs: Any) -> Any:
    """Return outputs for the inputs of an operator; nothing is written into them."""
    module = OPS[op]
    return module.empty_outputs(inputs) if direction == "forward" else module.empty_grads(inputs)


def empty_of(case: RunningCase, inputs: Any) -> Any:
    """Return outputs for the inputs, filled with NaN: an element that a kernel does not write is then seen."""
    outputs = allocated(case.op, case.direction, inputs)
    for tensor in outputs:
        if tensor is not None:
            tensor.fill_(math.nan)
    return outputs


class _Draw:
    """The tensors of one case by name, each drawn from its own stream."""

    def __init__(self, case: RunningCase) -> None:
        self.case = case
        self.backward = case.direction == "backward"
        self.tokens, self.n = case.axes["tokens"], case.axes["streams"]
        self.hidden = case.axes.get("hidden", 0)
        self.dtype = DTYPES[case.axes["dtype"]]
        self.constants = constants_of(case.op, case.axes)

    def inputs(self) -> Any:
        forward, backward = getattr(self, self.case.op)()
        return backward() if self.backward else forward()

    def data(self, name: str, *shape: int, scale: float = 1.0) -> torch.Tensor:
        return self.standing_out(self.case.draw(name, shape, scale=scale)).to(self.dtype)

    def gradient(self, name: str, *shape: int) -> torch.Tensor:
        return self.standing_out(self.case.draw(name, shape)).float()

    def standing_out(self, values: Any, times: float = 100) -> torch.Tensor:
        """Return values of tokens, with two that stand out where the scale is large."""
        if self.case.axes["scale"] >= LOUD and self.tokens > 2:
            values[0] = 0
            values[-1] *= times
        return torch.from_numpy(values)

    def parameter(self, name: str, *shape: int, scale: float = 1.0, mean: float = 0.0) -> torch.Tensor:
        return torch.from_numpy(self.case.draw(name, shape, scale=scale, mean=mean)).float()

    def x(self) -> torch.Tensor:
        return self.data("x", self.tokens, self.n, self.hidden, scale=self.case.axes["scale"])

    def mapping(self, rows: int, gates: int) -> tuple[Any, ...]:
        """Draw phi, alpha, bias and gamma of a layer near its initialisation; gamma is not one, and the gates differ.

        The weights of the streams are below 1/n and vary little: at unit scale their sums stay below 4. Above 4, the
        rounding of an exact result to bf16 would by itself exceed the project's cap.
        """
        width = self.n * self.hidden
        bias = self.parameter("bias", rows, scale=0.2)
        bias[: self.n] += -math.log(self.n - 1) - 1.0 if self.n > 1 else 1.0
        gamma = self.parameter("gamma", self.n, self.hidden, scale=0.3, mean=1.0)
        return (
            self.parameter("phi", rows, width, scale=1 / math.sqrt(width)),
            self.parameter("alpha", gates, scale=0.05, mean=0.4),
            bias,
            gamma if self.case.axes["gamma"] else None,
        )

    def mhc_pre(self) -> tuple[Any, Any]:
        tensors = (self.x(), *self.mapping(self.n * (self.n + 2), 3))
        forward = mhc_pre.MhcPreInputs(*tensors, precision=self.case.axes["precision"], **self.constants)
        return (
            lambda: forward,
            lambda: mhc_pre.MhcPreBackwardInputs(
                *tensors,
                *self.saved(forward),
                self.data("grad_h_in", self.tokens, self.hidden),
                self.gradient("grad_h_post", self.tokens, self.n),
                self.gradient("grad_h_res", self.tokens, self.n, self.n),
                precision=forward.precision,
                **self.constants,
            ),
        )

    def mhc_head(self) -> tuple[Any, Any]:
        tensors = (self.x(), *self.mapping(self.n, 1))
        forward = mhc_head.MhcHeadInputs(*tensors, precision=self.case.axes["precision"], **self.constants)
        return (
            lambda: forward,
            lambda: mhc_head.MhcHeadBackwardInputs(
                *tensors,
                *self.saved(forward),
                self.data("grad_out", self.tokens, self.hidden),
                precision=forward.precision,
                **self.constants,
            ),
        )

    def saved(self, forward: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return what an exact forward keeps for the backward, rounded once."""
        exact = load("reference", self.case.op).golden(forward)
        return exact.m.float(), exact.r.float()

    def sinkhorn(self) -> tuple[Any, Any]:
        shape = (self.tokens, self.n, self.n)
        logits = self.standing_out(self.case.draw("logits", shape, scale=self.case.axes["scale"]), times=10).float()
        return (
            lambda: sinkhorn.SinkhornInputs(logits, **self.constants),
            lambda: sinkhorn.SinkhornBackwardInputs(logits, self.gradient("grad_matrix", *shape), **self.constants),
        )

    def mhc_post(self) -> tuple[Any, Any]:
        tensors = self.written()
        shape = (self.tokens, self.n, self.hidden)
        return (
            lambda: mhc_post.MhcPostInputs(*tensors),
            lambda: mhc_post.MhcPostBackwardInputs(*tensors, self.data("grad_out", *shape)),
        )

    def written(self) -> tuple[torch.Tensor, ...]:
        """Draw x, y, h_post near 1/2 and h_res near the identity: sums stay below 8 at unit scale."""
        tokens, n = self.tokens, self.n
        return (
            self.x(),
            self.data("y", tokens, self.hidden, scale=0.5 * self.case.axes["scale"]),
            self.parameter("h_post", tokens, n, scale=0.05, mean=0.25),
            self.parameter("h_res", tokens, n, n, scale=0.05) + 0.4 * torch.eye(n),
        )

    def mhc_post_pre(self) -> tuple[Any, Any]:
        """Draw what ``mhc_post`` has, and a mapping of the streams that it makes."""
        tensors = (*self.written(), *self.mapping(self.n * (self.n + 2), 3))
        precision = self.case.axes["precision"]
        forward = mhc_post_pre.MhcPostPreInputs(*tensors, precision=precision, **self.constants)

        def backward() -> Any:
            exact = load("reference", self.case.op).golden(forward)
            return mhc_post_pre.MhcPostPreBackwardInputs(
                *tensors,
                exact.out.to(self.dtype),
                exact.m.float(),
                exact.r.float(),
                self.data("grad_h_in", self.tokens, self.hidden),
                self.gradient("grad_next_h_post", self.tokens, self.n),
                self.gradient("grad_next_h_res", self.tokens, self.n, self.n),
                self.data("grad_out", self.tokens, self.n, self.hidden),
                precision=precision,
                **self.constants,
            )

        return lambda: forward, backward

    def weights(self) -> torch.Tensor:
        """Draw weights of the streams whose sum is near 0.8."""
        return self.parameter("pre", self.tokens, self.n, scale=0.1 / self.n, mean=0.8 / self.n)

    def mhc_read(self) -> tuple[Any, Any]:
        tensors = (self.x(), self.weights())
        return (
            lambda: mhc_read.MhcReadInputs(*tensors),
            lambda: mhc_read.MhcReadBackwardInputs(*tensors, self.data("grad_h_in", self.tokens, self.hidden)),
        )

    def mhc_coefficients(self) -> tuple[Any, Any]:
        logits = logits_of(self.case.axes)
        tensors = (self.x(), *self.mapping(2 * self.n + logits, 3))
        forward = mhc_coefficients.MhcCoefficientsInputs(
            *tensors, precision=self.case.axes["precision"], **self.constants
        )
        return (
            lambda: forward,
            lambda: mhc_coefficients.MhcCoefficientsBackwardInputs(
                *tensors,
                *self.saved(forward),
                self.gradient("grad_h_pre", self.tokens, self.n),
                self.gradient("grad_h_post", self.tokens, self.n),
                self.gradient("grad_logits", self.tokens, logits),
                precision=forward.precision,
                **self.constants,
            ),
        )

    def mhc_single_pass(self) -> tuple[Any, Any]:
        logits, tokens = logits_of(self.case.axes), self.tokens
        mapping = self.mapping(2 * self.n + logits, 3)
        norm_weight = self.parameter("norm_weight", self.hidden, scale=0.05, mean=0.2)  # h_in stays below 2
        tensors = (*self.written(), self.weights(), *mapping, norm_weight)
        precision = self.case.axes["precision"]
        forward = mhc_single_pass.MhcSinglePassInputs(*tensors, precision=precision, **self.constants)

        def backward() -> Any:
            exact = load("reference", self.case.op).golden(forward)
            return mhc_single_pass.MhcSinglePassBackwardInputs(
                *tensors,
                exact.out.to(self.dtype),
                exact.read.to(self.dtype),
                exact.s.float(),
                exact.m.float(),
                exact.r.float(),
                self.data("grad_h_in", tokens, self.hidden),
                self.gradient("grad_next_h_pre", tokens, self.n),
                self.gradient("grad_next_h_post", tokens, self.n),
                self.gradient("grad_next_logits", tokens, logits),
                self.data("grad_out", tokens, self.n, self.hidden),
                precision=precision,
                **self.constants,
            )

        return lambda: forward, backward

    def expand(self) -> tuple[Any, Any]:
        scale = self.case.axes["scale"]
        return (
            lambda: expand.ExpandInputs(self.data("x", self.tokens, self.hidden, scale=scale), self.n),
            lambda: expand.ExpandBackwardInputs(self.data("grad_out", self.tokens, self.n, self.hidden)),
        )
