"""Compute what a launch is to compute, with Triton's interpreter behind the recorder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from triton import language
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from ..launch import Launch

_KEPT: dict[Any, Any] = {}


def install() -> Callable[..., None]:
    """Make kernels that call each other work in the interpreter, and return what computes a launch."""
    JITFunction.__call__ = _call
    return compute


def compute(kernel: Any, launch: Launch, grid: Sequence[int], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Run every program of a grid in the interpreter, and say of the launch that this was done."""
    constants = {param.name for param in kernel.params if param.is_constexpr}
    given = {**dict(zip(kernel.arg_names, args, strict=False)), **kwargs}
    values = {name: value if name in constants else scalar(value) for name, value in given.items()}
    with torch._C.DisableTorchFunction():
        function = interpreted(kernel)
        executor = interpreter.GridExecutor(function.rewrite(), kernel.arg_names, tuple(grid), [])
        executor(**{name: value for name, value in values.items() if name in kernel.arg_names})
    launch.emulated = True


def scalar(value: Any) -> Any:
    """Return a float as the scalar that a compiled kernel gets. The interpreter would leave it a number of Python."""
    if not isinstance(value, float):
        return value
    return language.tensor(interpreter.TensorHandle(np.array([value], np.float32), language.float32), language.float32)


def interpreted(kernel: Any) -> Any:
    """Return the kernel as the interpreter takes it."""
    if kernel.fn not in _KEPT:
        _KEPT[kernel.fn] = interpreter.InterpretedFunction(kernel.fn)
    return _KEPT[kernel.fn]


def _call(kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a kernel from a kernel. The interpreter itself would leave the language changed, which compilers need."""
    function = interpreted(kernel)
    changed = interpreter._patch_lang(kernel.fn)
    try:
        return function.rewrite()(*args, **kwargs)
    finally:
        changed.restore()
