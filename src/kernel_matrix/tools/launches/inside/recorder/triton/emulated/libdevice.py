"""Compute the functions of libdevice, which Triton's interpreter does not have."""

from __future__ import annotations

import contextlib
import importlib
import math
import statistics
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

_MODULES = ("", ".hip", ".cuda")
_SAME = (
    *("tanh", "sinh", "cosh", "tan", "sin", "cos", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt"),
    *("floor", "ceil", "trunc", "rint", "fmod", "isnan", "cbrt"),
)
_OTHERS: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "pow": np.power,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "nearbyint": np.rint,
    "isinf": np.isinf,
    "abs": np.abs,
    "fabs": np.abs,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_tanhf": np.tanh,
    "fast_dividef": np.divide,
    "div_rn": np.divide,
    "fast_powf": np.power,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "erfc": np.vectorize(math.erfc, otypes=[np.float64]),
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
    "finitef": np.isfinite,
    "hypot": np.hypot,
    "copysign": np.copysign,
    "ldexp": lambda x, power: x * 2.0**power,
    "lgamma": np.vectorize(math.lgamma, otypes=[np.float64]),
    "erfinv": np.vectorize(lambda x: _inverse_erf(x), otypes=[np.float64]),
}


def _inverse_erf(value: float) -> float:
    """Return the number whose error function is a value; at the ends infinity, outside of them NaN."""
    if abs(value) >= 1 or value != value:
        return math.copysign(math.inf, value) if abs(value) == 1 else math.nan
    return statistics.NormalDist(sigma=math.sqrt(0.5)).inv_cdf((value + 1) / 2)


_FUNCTIONS = {**{name: getattr(np, name) for name in _SAME}, **_OTHERS}
_KEY = "_kernel_matrix_computes"


@contextlib.contextmanager
def computed(result: Callable[[Any, Any], Any]) -> Iterator[None]:
    """Let the functions compute inside this block; ``result`` makes a value of the interpreter.

    A kernel has imported the functions themselves, so it is their code that changes. Outside of the block it is as
    before: a compiler reads it. A function's names are of the module that defines it: Triton wraps some of them.
    """
    before: list[tuple[Any, Any, Any]] = []
    for module in _modules():
        for name in _FUNCTIONS.keys() & vars(module).keys():
            function = vars(module)[name]
            if isinstance(function, types.FunctionType):
                before.append((function, function.__code__, function.__kwdefaults__))
                function.__code__ = _code(name, function.__code__)
                function.__globals__[_KEY] = lambda called, args: _compute(called, args, result)
    try:
        yield
    finally:
        for function, code, defaults in before:
            function.__code__, function.__kwdefaults__ = code, defaults
            function.__globals__.pop(_KEY, None)


def _modules() -> Iterator[Any]:
    for part in _MODULES:
        with contextlib.suppress(ImportError):
            yield importlib.import_module(f"triton.language.extra{part}.libdevice")


def _code(name: str, like: types.CodeType) -> types.CodeType:
    """Return the code of a function that computes, with as many free variables as the one that it stands for."""
    made: dict[str, Any] = {}
    exec(f"def {name}(*args, **_): return {_KEY}({name!r}, args)", made)  # noqa: S102  a function of that name
    code: types.CodeType = made[name].__code__
    return code.replace(co_freevars=like.co_freevars)


def _compute(name: str, args: Any, result: Callable[[Any, Any], Any]) -> Any:
    from triton import language as tl

    first = next(one for one in args if isinstance(one, tl.tensor))
    data = _FUNCTIONS[name](*(one.handle.data if isinstance(one, tl.tensor) else one for one in args))
    if data.dtype == bool:
        return tl.tensor(
            result(data, tl.int1), tl.block_type(tl.int1, first.shape) if first.type.is_block() else tl.int1
        )
    return tl.tensor(result(data, first.dtype), first.type)
