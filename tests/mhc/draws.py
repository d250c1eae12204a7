"""The constants of an operator in a case, what its arrays hold, and the scale of its outputs. It imports no PyTorch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Axes = Mapping[str, Any]
WITHOUT = ("mhc_post", "mhc_read", "expand")  # operators without constants
LOUD = 10  # the scale from which on a case has tokens that stand out, and other constants
WITH_EQUATIONS = ("reference", "inductor")  # the backends whose kernels are the reference's equations
# The tokens from which a case on an emulated GPU has other code than that it is about: every variant, and code for a
# part of the gradients. Compiling takes most of the time there. In each cell of a first target some cases have so many.
OTHER_CODE = 8
# Shared by all tokens: their gradients are sums over tokens.
PARAMETERS = {"phi", "alpha", "bias", "gamma", "norm_weight"}
FORMS = {"paper": 0.0, "deepseek": 1e-6}  # of Sinkhorn's first iteration, each with its eps
SINGLE_PASS = ("mhc_single_pass", "mhc_single_pass_fp8")
IN_FP8 = ("mhc_pre_norm_fp8", "mhc_single_pass_fp8")
WITH_LOGITS = ("mhc_coefficients", *SINGLE_PASS)
_WITH_POST_SCALE = ("mhc_pre", "mhc_pre_norm", "mhc_pre_norm_fp8", "mhc_post_pre", *WITH_LOGITS)
WITH_PRECISION = ("mhc_head", *_WITH_POST_SCALE)


def usual(op: str, axes: Axes) -> bool:
    """Return whether a case has the paper's constants: ``pre_eps`` of 1e-6, 20 iterations, and so on.

    A kernel for which a constant is what it usually is would otherwise pass every case. It follows from the sizes and
    the dtype that a kernel is compiled for, so there are few more kernels than without other constants. In fp32 a case
    of a large scale has the other ones, so that one process runs two kernels that differ by their constants alone.
    """
    wide = axes["dtype"] == "fp32"
    by_shape = axes["streams"] % 2 == 0 if op == "sinkhorn" else (axes["hidden"] % 256 == 0) == wide
    return bool(by_shape != (wide and axes["scale"] >= LOUD))


def constants_of(op: str, axes: Axes) -> dict[str, Any]:
    """Return the constants of an operator: the paper's where :func:`usual` says so, and others elsewhere."""
    if op in WITHOUT:
        return {}
    as_usual = usual(op, axes)
    if op == "sinkhorn":
        form = axes["form"]
        iterations = {"paper": 20 if as_usual else 7, "deepseek": 12 if as_usual else 20}[form]
        return {"iterations": iterations, "eps": FORMS[form] if as_usual else 100 * FORMS[form], "form": form}
    values = {"norm_eps": 1e-6 if as_usual else 1e-3, "pre_eps": 1e-6 if as_usual else 1e-2}
    return values | ({"post_scale": 2.0 if as_usual else 1.5} if op in _WITH_POST_SCALE else {})


def logits_of(axes: Axes) -> int:
    """Return the logits of a case: of all permutations for few streams in fp32, of a matrix elsewhere."""
    n = axes["streams"]
    return math.factorial(n) if n <= 4 and axes["dtype"] == "fp32" else int(n * n)


def options_of(op: str, direction: str, axes: Axes) -> dict[str, Any]:
    """Return the arguments of an operator that are no tensors."""
    if op == "expand":
        return {"streams": axes["streams"]} if direction == "forward" else {}
    precision = {"precision": axes["precision"]} if op in WITH_PRECISION else {}
    scales = {"power_of_two_scales": axes["power_of_two_scales"]} if op in IN_FP8 else {}
    return constants_of(op, axes) | precision | scales


def standing_out(values: Any, axes: Axes, times: float = 100) -> Any:
    """Return values of tokens, with two that stand out from the scale :data:`LOUD` on.

    The first is padding, zeros in all that comes in, and the last is ``times`` as large as the others.
    """
    if axes["scale"] >= LOUD and len(values) > 2:
        values[0] = 0
        values[-1] *= times
    return values


def bias(values: Any, axes: Axes) -> Any:
    """Return a bias by which the weights of the streams are below 1/n and vary little.

    So their sums stay below 4 at unit scale. Above 4, the rounding of an exact result to bf16 would by itself exceed
    the project's cap.
    """
    n, values = axes["streams"], values.astype(np.float32)
    values[:n] += np.float32(-math.log(n - 1) - 1.0 if n > 1 else 1.0)
    return values


def small_columns(values: Any, axes: Axes) -> Any:
    """Return weights of columns, of which each eighth is so small that subnormal numbers of fp8 come of it."""
    values = values.astype(np.float32)
    values[::8] *= np.float32(2.0**-13)
    return values


def near_identity(values: Any, axes: Axes) -> Any:
    """Return matrices near 0.4 times the identity: sums of what they mix stay below 8 at unit scale."""
    return values.astype(np.float32) + np.float32(0.4) * np.eye(axes["streams"], dtype=np.float32)


def units_of(op: str, direction: str, axes: Axes, exact: Mapping[str, Any]) -> dict[str, float]:
    """Return what "unit scale" is for each output.

    A forward's output in x's dtype follows the scale of x, and ``r`` its reciprocal; coefficients and matrices are of
    order one by themselves. A gradient is a sum over tokens or over the hidden dimension: its unit is its largest
    value, and no less than the unit scale of the gradients that come in (the gradient of a 1×1 Sinkhorn is zero). So it
    is where a token is far larger than the others.
    """
    if direction == "backward" or axes["scale"] >= LOUD:
        return {name: float(np.abs(values).max(initial=1.0)) for name, values in exact.items()}
    scale = float(axes["scale"])
    units = {"h_in": scale, "out": scale, "read": scale, "r": 1 / scale, "s": 1 / scale}
    if op in ("mhc_pre_norm", "mhc_single_pass"):  # what is read is normalised
        units["h_in"] = 1.0
    if op in IN_FP8:  # to the largest number of fp8
        units |= {"h_in": 448.0, "scale": 1 / 448}
    return {name: units.get(name, 1.0) for name in exact}


def steps_of(op: str, direction: str, axes: Axes, name: str) -> int:
    """Return the rounded operations in turn behind an output.

    The gradients of parameters are sums over tokens. Each of Sinkhorn's iterations makes, for rows and columns, a
    sum, adds eps and divides. Going back through it makes a product, a sum, a difference and a quotient.
    """
    if op == "sinkhorn":
        return int(constants_of(op, axes)["iterations"]) * 2 * (3 if direction == "forward" else 3 + 4)
    return int(axes["tokens"]) if name in PARAMETERS else 1
