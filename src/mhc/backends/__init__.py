"""A backend is a folder of this one, found by its name; each operator in it is a module with two functions.

The module of an operator's forward has the operator's name, that of its backward ends in ``_backward``.

``run(inputs, out, target=None)``
    Computes the operator and writes every element of ``out``. ``target`` names the architecture to compile for;
    None means the device that holds the inputs.
``compile(spec, target)``
    Compiles for ``target`` (``sm_90``, ``gfx942``, ``x86-64-v3``) and returns an :class:`Artifact`. It needs no
    device of that kind. A backend that has nothing to compile ahead of time has no such function.

Importing such a module imports its toolchain, and nothing else does.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType

import torch


@dataclass(frozen=True)
class Artifact:
    """What a compiler made of one kernel for one target.

    ``kind`` is ``cubin``, ``hsaco``, ``shared-object`` or ``elf`` for machine code; ``cuda-source``, ``hip-source`` and
    the like say that source was generated and that nothing compiled it. ``resources`` holds what the toolchain tells
    of ``registers``, ``spill_bytes``, ``stack_bytes``, ``shared_bytes`` (LDS on AMD), ``threads``; a key it does not
    tell is absent.
    """

    kind: str
    target: str
    data: bytes = field(repr=False)
    resources: dict[str, int] = field(default_factory=dict)

    @property
    def is_machine_code(self) -> bool:
        """Whether a compiler got as far as instructions."""
        return not self.kind.endswith("-source")


class NoDeviceError(RuntimeError):
    """The device that a backend was asked to run on is not here, or does not work; the text says why."""


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Mark an exception that leaves this block with the stage it came from: ``lower``, ``compile`` or ``launch``."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "stage"):
            error.stage = name  # type: ignore[attr-defined]
        raise


def names() -> tuple[str, ...]:
    """The backends that exist, whether or not their toolchains are installed."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


def load(backend: str, op: str, direction: str = "forward") -> ModuleType:
    """Import ``op`` in one direction as written in ``backend``.

    Raises:
        LookupError: there is no such backend, or it does not have this operator.
        ImportError: the backend's toolchain is not installed, or does not import.
    """
    if backend not in names():
        raise LookupError(f"there is no backend {backend!r}; there are {', '.join(names())}")
    name = op if direction == "forward" else f"{op}_{direction}"
    path = f"{__name__}.{backend}.{name}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name == path:
            raise LookupError(f"backend {backend!r} does not have {op!r} {direction}") from error
        raise


def default_backend(device: torch.device) -> str:
    """``triton`` on a GPU, ``reference`` elsewhere."""
    return "triton" if device.type == "cuda" else "reference"
