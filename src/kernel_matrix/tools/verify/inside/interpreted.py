"""Have Triton's interpreter take what a compiler takes: else a kernel that is right would fail in it."""

from __future__ import annotations

import os
import types
from typing import Any

from kernel_matrix.tools.launches.inside.recorder.triton.emulated import libdevice

LACKS = "is not in Triton's interpreter"
_kept: list[Any] = []  # what is in force until the process ends


def complete() -> None:
    """Give the interpreter scalars of floating point, the functions of libdevice, and a choice without a clock.

    Any configuration of a kernel computes the same, so that the first one is taken.
    """
    if not os.environ.get("TRITON_INTERPRET"):
        return
    from triton.language.extra import libdevice as stubs
    from triton.runtime import autotuner, interpreter

    from kernel_matrix.tools.launches.inside.recorder.triton.emulated.interpret import scalar

    convert = interpreter._implicit_cvt
    interpreter._implicit_cvt = lambda one: scalar(one) if isinstance(one, float) else convert(one)
    autotuner.Autotuner._bench = lambda *_, **__: [1.0, 1.0, 1.0]
    for name, function in vars(stubs).items():
        if isinstance(function, types.FunctionType):
            function.__code__ = _refusing(name)

    def result(data: Any, dtype: Any) -> Any:
        return interpreter.TensorHandle(data.astype(interpreter._get_np_dtype(dtype)), dtype)

    _kept.append(libdevice.computed(result))
    _kept[-1].__enter__()


def _refusing(name: str) -> types.CodeType:
    """Return the code of a function that has no value here: the stub gives None, and its caller would fail."""
    made: dict[str, Any] = {}
    exec(f"def {name}(*_, **__): raise NotImplementedError({f'{name} of libdevice {LACKS}'!r})", made)  # noqa: S102
    code: types.CodeType = made[name].__code__
    return code
