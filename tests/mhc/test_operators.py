"""Every operator, in both directions, described. This module imports no PyTorch: to compile alone needs none here."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import draws
from draws import OTHER_CODE, WITH_EQUATIONS
from kernel_matrix.kit import array, operator

Kinds = dict[str, array]
T, N, H = "tokens", "streams", "hidden"
REFERENCE = ("operators", "read")  # modules of the reference; each operator has one more


def width(axes: Mapping[str, Any]) -> int:
    """Return the elements of a token."""
    return int(axes[N] * axes[H])


def mixes(axes: Mapping[str, Any]) -> int:
    """Return the rows of phi: n for h_pre, n for h_post, n² for h_res."""
    return int(axes[N] * (axes[N] + 2))


data = partial(array, drawn=draws.standing_out)
wide = partial(array, dtype="fp32")  # what is computed, and parameters
X = data(T, N, H, scale="scale")
WRITTEN = {
    "x": X,
    "y": data(T, H, scale=lambda axes: 0.5 * axes["scale"]),
    "h_post": wide(T, N, scale=0.05, mean=0.25),
    "h_res": wide(T, N, N, scale=0.05, drawn=draws.near_identity),
}


def more_logits(axes: Mapping[str, Any]) -> int:
    """Return the rows of phi of a mapping with any number of logits."""
    return 2 * int(axes[N]) + draws.logits_of(axes)


def mapping(rows: Any, gates: int) -> Kinds:
    """Return phi, alpha, bias and gamma of a layer near its initialisation; gamma is not one, and the gates differ."""
    return {
        "phi": wide(rows, width, scale=lambda axes: 1 / width(axes) ** 0.5),
        "alpha": wide(gates, scale=0.05, mean=0.4),
        "bias": wide(rows, scale=0.2, drawn=draws.bias),
        "gamma": wide(N, H, scale=0.3, mean=1.0, when="gamma"),
    }


PRE, HEAD, ANY = mapping(mixes, 3), mapping(N, 1), mapping(more_logits, 3)
M, R = wide(T, mixes), wide(T)
PROJECTED = {"m": wide(T, more_logits), "r": R}
# Weights of the streams: their sum is near 0.8.
WEIGHTS = wide(T, N, scale=lambda axes: 0.1 / axes[N], drawn=lambda values, axes: values + 0.8 / axes[N])
OUT, H_IN, H_POST, H_RES = {"out": array(T, N, H)}, array(T, H), wide(T, N), wide(T, N, N)
LOGITS = {"logits": wide(T, N, N, scale="scale", drawn=partial(draws.standing_out, times=10))}
COEFFICIENTS = {"h_pre": H_POST, "h_post": H_POST, "logits": wide(T, draws.logits_of)}
NEXT = {f"next_{name}": one for name, one in COEFFICIENTS.items()}
WEIGHT = partial(wide, H, scale=0.05, mean=0.2)  # h_in stays below 2
PASSED = {**WRITTEN, "pre": WEIGHTS, **ANY, "norm_weight": WEIGHT()}
OF_FP8 = {"norm_weight": WEIGHT(drawn=draws.small_columns)}
IN_FP8 = {"h_in": array(T, H, dtype="fp8"), "scale": wide(T, lambda axes: axes[H] // 128)}
PASSED_ON = {**NEXT, **OUT, "read": H_IN, "s": R, **PROJECTED}
READ, KEPT = {"h_in": H_IN, "h_post": H_POST, "h_res": H_RES}, {"m": M, "r": R}
NORMED = {"read": H_IN, "s": R, **KEPT}
# Of each operator the inputs and the outputs.
FORWARD: dict[str, tuple[Kinds, Kinds]] = {
    "mhc_pre": ({"x": X, **PRE}, {**READ, **KEPT}),
    "mhc_pre_norm": ({"x": X, **PRE, "norm_weight": WEIGHT()}, {**READ, **NORMED}),
    "mhc_pre_norm_fp8": ({"x": X, **PRE, **OF_FP8}, {**IN_FP8, "h_post": H_POST, "h_res": H_RES, **NORMED}),
    "sinkhorn": (LOGITS, {"matrix": H_RES}),
    "mhc_post": (WRITTEN, OUT),
    "mhc_post_pre": (
        {**WRITTEN, **PRE},
        {"h_in": H_IN, "next_h_post": H_POST, "next_h_res": H_RES, **OUT, **KEPT},
    ),
    "mhc_head": ({"x": X, **HEAD}, {"out": H_IN, "m": wide(T, N), "r": R}),
    "mhc_read": ({"x": X, "pre": WEIGHTS}, {"h_in": H_IN}),
    "mhc_coefficients": ({"x": X, **ANY}, {**COEFFICIENTS, **PROJECTED}),
    "mhc_single_pass": (PASSED, {"h_in": H_IN, **PASSED_ON}),
    "mhc_single_pass_fp8": ({**PASSED, **OF_FP8}, {**IN_FP8, **PASSED_ON}),
    "expand": ({"x": data(T, H, scale="scale")}, OUT),
}
# A backward gets the outputs that have no gradients, and the streams that were written where they are read again.
WITHOUT_GRADIENTS, READ_AGAIN = ("read", "s", "m", "r"), ("mhc_post_pre", "mhc_single_pass")
FORWARD_ONLY = draws.IN_FP8


def backward_of(op: str) -> tuple[Kinds, Kinds]:
    """Return the inputs and the outputs of a backward."""
    (inputs, outputs), forward = FORWARD[op], partial(equations, "saved", op, "forward")
    kept = [name for name in outputs if name in WITHOUT_GRADIENTS or (name == "out" and op in READ_AGAIN)]
    saved = {name: outputs[name].like(saved=forward) for name in kept}
    with_gradients = {name: one for name, one in outputs.items() if name not in WITHOUT_GRADIENTS}
    incoming = {f"grad_{name}": one.like(drawn=draws.standing_out) for name, one in with_gradients.items()}
    given = {} if op == "expand" else inputs
    return {**given, **saved, **incoming}, {name: one.like() for name, one in inputs.items()}


def without(case: Any) -> dict[str, str]:
    """Return the checks of the kit that a case has not, with the reasons."""
    reasons = {
        "layouts": "the package packs its tensors, and a property calls it with others",
        "follows": "NaN that comes in has to come out, and the next case has other values",
        "magnitudes": "the cases of a large scale have padding and a loud token",
    }
    if case.action == "emulate":
        reasons["fresh"] = "an interpreter or an emulator takes long"
    if case.backend in WITH_EQUATIONS:
        reasons["operators"] = "its kernels are the equations of the reference"
        reasons["processes"] = "the compilers of Inductor are processes that stay"
    if case.op == "sinkhorn" and case.axes[N] == 1:
        reasons["rows"] = "a 1×1 matrix is one, whatever its logit is"
    if not may_compile_more(case):
        reasons["gradients"] = "a kernel for a part of the gradients is compiled anew"
    return reasons


def may_compile_more(case: Any) -> bool:
    """Return whether the case is to run other code than that it is about: on an emulated GPU few do."""
    from mhc.toolchain import gfx

    is_emulated_gpu = case.action == "emulate" and gfx.emulates(case.target)
    return not is_emulated_gpu or bool(case.axes[T] >= OTHER_CODE)


def equations(name: str, op: str, direction: str, *given: Any, **options: Any) -> Any:
    """Call a function of the module of equations, which imports PyTorch."""
    return getattr(importlib.import_module("equations"), name)(op, direction, *given, **options)


def described(op: str, direction: str) -> Any:
    """Return the test of an operator in one direction."""
    inputs, outputs = FORWARD[op] if direction == "forward" else backward_of(op)
    golden: Any = partial(equations, "golden", op, direction)
    golden.__module__, golden.__name__ = __name__, f"test_{op}_{direction}"
    return operator(
        name=op,
        direction=direction,
        framework="torch",
        rows=T,
        fewest=1,
        **inputs,
        outputs=outputs,
        options=partial(draws.options_of, op, direction),
        writes=True,
        optional=tuple(outputs) if direction == "backward" and len(outputs) > 1 else (),
        kernels="kernels:kernels",
        baseline=partial(equations, "baseline", op, direction),
        units=partial(draws.units_of, op, direction),
        steps=partial(draws.steps_of, op, direction),
        ahead="kernels:compile_ahead",
        code="kernels:code_that_ran",
        operators=("add_", "sum", "mul_"),  # small sums over partial results
        forbidden=tuple(f"mhc.backends.reference.{name}" for name in (*REFERENCE, *FORWARD)),
        holds="properties:check",
        once={T: 3, N: 3},
        without=without,
    )(golden)


for _op in FORWARD:
    for _direction in ("forward",) if _op in FORWARD_ONLY else ("forward", "backward"):
        globals()[f"test_{_op}_{_direction}"] = described(_op, _direction)
