"""Let Triton's interpreter prepare Triton's language once for a launch, and not for each function that a kernel calls.

The interpreter replaces about three hundred functions of the language when it launches a kernel. Triton 3.6 does it
again for each call of a jitted function inside of the kernel, though all is replaced already, and that was a quarter of
the time in which kernels with such functions run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import triton.language as tl
from triton.runtime import interpreter


def prepare_language_once() -> None:
    """Have the interpreter leave what is prepared as it is, in this process. Versions that work otherwise stay."""
    if hasattr(interpreter, "_LangPatchScope"):
        interpreter._patch_lang = partial(_prepared, interpreter._patch_lang)


def _prepared(prepare: Callable[[FunctionType], Any], function: FunctionType) -> Any:
    """Prepare the language that the function sees; return what restores it, which is nothing where all is prepared."""
    seen = [value for value in list(function.__globals__.values()) if value is tl or value is tl.core]
    if seen and all(map(_is_prepared, seen)):
        return interpreter._LangPatchScope()
    return prepare(function)


def _is_prepared(language: ModuleType) -> bool:
    """Return whether the interpreter has replaced the first and last name in a module, and methods of tensors."""
    return (
        language.static_print is print
        and not tl.core.is_builtin(language.arange)
        and language.tensor.__str__.__module__ == interpreter.__name__
    )
