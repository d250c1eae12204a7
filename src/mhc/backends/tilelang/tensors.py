"""The parameters of kernels. Tensors are declared once for each operator; kernels annotate their parameters so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

from mhc.backends.tilelang.gpu import FP32


def declare(
    language: ModuleType, shapes: Mapping[str, tuple[Any, ...]], dtype: str, in_dtype: Collection[str], **sizes: Any
) -> SimpleNamespace:
    """Return a tensor of ``language`` for each name, one for its gradient, and the ``sizes`` that are free.

    The tensors ``in_dtype`` hold ``dtype``, the others fp32. Each kernel needs free sizes of its own: declare the
    tensors anew.
    """
    tensors = dict(sizes)
    for name, shape in shapes.items():
        element = dtype if name in in_dtype else FP32
        for each in (name, f"grad_{name}"):
            tensors[each] = language.Tensor(shape, element)
    return SimpleNamespace(**tensors)
