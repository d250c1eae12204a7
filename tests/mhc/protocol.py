"""The inputs and outputs of a backend's kernel, made from the tensors of a call."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any


@cache  # a timed run asks for it, too
def class_of(op: str, kind: str) -> Any:
    """Return a class of an operator's module, such as ``BackwardInputs`` or ``Grads``."""
    name = "".join(part.capitalize() for part in op.split("_"))
    return getattr(importlib.import_module(f"mhc.ops.{op}"), f"{name}{kind}")


@cache
def names_of(op: str, direction: str) -> tuple[str, ...]:
    """Return the names of the tensors that a kernel takes, in their order; options come after them."""
    kind = _inputs_of(op, direction)
    return tuple(name for name in kind._fields if name not in kind._field_defaults and name != "streams")


def inputs_and_outputs(op: str, direction: str, tensors: Sequence[Any], options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the two as a backend takes them; ``tensors`` are the inputs and then the outputs, if there are any.

    A gradient that has no tensor is not asked for.
    """
    names = names_of(op, direction)
    inputs = _inputs_of(op, direction)(*tensors[: len(names)], **options)
    if len(tensors) == len(names):
        return inputs, None
    out = class_of(op, "Outputs" if direction == "forward" else "Grads")(*tensors[len(names) :])
    if "needs" not in inputs._fields:
        return inputs, out
    pairs = out._asdict().items()
    return inputs._replace(needs=tuple(one is not None or getattr(inputs, name) is None for name, one in pairs)), out


def _inputs_of(op: str, direction: str) -> Any:
    return class_of(op, "Inputs" if direction == "forward" else "BackwardInputs")
