"""A task: what a candidate is to compute, as cases with inputs that it cannot know."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import ml_dtypes
import numpy as np
import torch

from kernel_matrix.job.arrays import NARROW
from kernel_matrix.job.inputs import Array
from kernel_matrix.kit.description import Operator, array

Arrays = dict[str, Array]
_SHORT = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8_e4m3fn": "fp8"}
_STRUCTURED = 0.05  # of the elements of an input: with more zeros its rows are no free numbers


class UnusableError(Exception):
    """The task cannot be read or run."""


class UndecidedError(Exception):
    """There is no verdict; the text says what is missing."""


@dataclass(frozen=True)
class Case:
    """One call with secret inputs. ``whole`` has every check of the kit; another case compares the numbers alone.

    ``weighted`` is the operator with its weights as inputs: so they are off by a rounding error too where the noise is
    measured. ``build`` is how the candidate is constructed, where it is.
    """

    name: str
    seed: int
    operator: Operator
    weighted: Operator
    values: Arrays
    weights: Arrays
    call: Mapping[str, Any]
    whole: bool = False
    build: Mapping[str, Any] | None = None
    state: Arrays = field(default_factory=dict)
    copies: bool = False
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    axes: Mapping[str, Any] = field(default_factory=dict)
    as_built: Case | None = None  # the same, with weights as the constructor makes them, where they differ
    recipe: Mapping[str, Any] = field(default_factory=dict)  # how a program makes the same inputs again


class Task(Protocol):
    """One form of a task."""

    form: str
    entry: str  # what a candidate is called
    identity: str  # what names it in a verdict, by its digest
    modules: Mapping[str, str]  # texts that its form has beside it
    notes: list[str]
    patch: bool
    properties: bool  # several answers may be right: the task has a checker of its own
    plain: tuple[str, str] | None  # the reference's text, and its name there

    def cases(self) -> tuple[list[Case], list[str]]:
        """Return the cases, and what could not be tried, in words.

        Raises:
            UndecidedError: none can be made.
        """

    def program(self, case: Case, candidate: str) -> dict[str, str]:
        """Return the files of a program that shows a case without this project."""


def card() -> str:
    """Return the name of a card's device where there is one, else the CPU's."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def seeds() -> Callable[[], int]:
    """Return a source of seeds that nobody can know."""
    source = random.Random(secrets.randbits(128))  # noqa: S311 (its own seed is a secret)
    return lambda: source.randrange(1, 2**31)


def flattened(value: Any, leaves: list[Any]) -> dict[str, Any]:
    """Return the form of a value as JSON; its tensors go into ``leaves``."""
    if isinstance(value, torch.Tensor):
        leaves.append(value)
        return {"t": len(leaves) - 1}
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple": [flattened(one, leaves) for one in value]}
    if isinstance(value, dict):
        return {"dict": [[name, flattened(one, leaves)] for name, one in value.items()]}
    if isinstance(value, torch.dtype):
        return {"torch": str(value).removeprefix("torch.")}
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"v": value}
    raise UndecidedError(f"an argument is {type(value).__name__}, which cannot be handed to another process")


def as_array(tensor: Any) -> Array:
    """Return a tensor as an array, bit for bit."""
    plain = tensor.detach().cpu().contiguous()
    for name in NARROW:
        if plain.dtype == getattr(torch, name):
            narrow = torch.uint16 if name == "bfloat16" else torch.uint8
            return np.array(plain.view(narrow).numpy().view(getattr(ml_dtypes, name)))
    try:
        return np.array(plain.numpy())
    except TypeError as error:
        raise UndecidedError(f"a tensor has the dtype {plain.dtype}, which no message has") from error


def described(values: Array, rows: str | None) -> array:
    """Return what the kit needs to know of an array."""
    kind = values.dtype.name
    axes = (rows, *values.shape[1:]) if rows else values.shape
    if values.dtype.kind in "iub":
        return array(*axes, dtype=kind, below=max(int(values.max(initial=0)), 0) + 1)
    wide = values.astype(np.float64)
    return array(*axes, dtype=_SHORT.get(kind, kind), scale=float(wide.std()) if wide.size else 1.0)


def is_structured(values: Array) -> bool:
    """Return whether other rows, or their other order, would make another kind of input: zeros, symmetry, one sum."""
    if values.dtype.kind in "iub" or values.size < 2:
        return False
    wide = values.astype(np.float64)
    zeros = np.count_nonzero(wide == 0) / wide.size
    square = values.ndim >= 2 and values.shape[-1] == values.shape[-2]
    return bool(zeros > _STRUCTURED) or (square and bool((wide == np.swapaxes(wide, -1, -2)).all()))
