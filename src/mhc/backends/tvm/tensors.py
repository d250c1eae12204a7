"""The parameters of scripts. Tensors are declared once for each operator; scripts annotate their parameters so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any

import tvm
from tvm.script import tirx as T

Shapes = Mapping[str, tuple[Any, ...]]


def declare(
    shapes: Callable[[Any], Shapes], dtype: str, in_dtype: Collection[str], tokens: int | None = None
) -> SimpleNamespace:
    """Return a buffer for each tensor by its name, one for its gradient, and ``tokens``: a variable where it is None.

    ``shapes`` returns the shapes for a number of tokens. The tensors ``in_dtype`` hold ``dtype``, the others fp32. They
    need only the alignment of their elements, so views into larger tensors are fine. Each script needs buffers of its
    own: declare them anew.
    """
    number = tvm.tirx.Var("tokens", "int64") if tokens is None else tokens
    tensors: dict[str, Any] = {"tokens": number}
    for name, shape in shapes(number).items():
        element = dtype if name in in_dtype else "float32"
        for each in (name, f"grad_{name}"):
            tensors[each] = T.Buffer(shape, element, align=tvm.DataType(element).itemsize)
    return SimpleNamespace(**tensors)
