"""The backends: each is one folder of this one, found by its name. All of them have the same layout.

``<backend>/operators.py``
    The table ``KERNELS``: the kernel of each operator and direction that the backend has. Importing it imports the
    backend's toolchain; nothing else does.
``<backend>/kernel.py``
    The class of these kernels: how one is compiled and run.
``<backend>/<operator>/``, or a module ``<operator>.py`` where that is enough
    The code of one operator. Its ``__init__`` hands tensors over (``FORWARD`` and ``BACKWARD``); the device code is in
    ``forward`` and ``backward``, with ``_cpu`` and ``_gpu`` behind the name where the two are written apart.
    Inductor has no such folder: it compiles the code of the reference.
``<backend>/variants.toml``
    Where an operator has several kernels, the choice between them (:mod:`mhc.backends.variants`).
other modules
    What the operators of the backend share.

A kernel (:class:`Kernel`) is an operator in one direction, as one backend has it. All backends take the names of
tensors and sizes from :mod:`mhc.ops`; a gradient is called ``grad_`` and the name of its tensor.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

MAX_STREAMS = 16  # of the compiled backends; the paper has 4


class Kernel(Protocol):
    """One operator in one direction.

    A backend that compiles ahead of time also has ``compile(spec, target)``: it compiles for ``target`` (``sm_90``,
    ``gfx942``, ``x86-64-v3``), needs no device of that kind, and returns an :class:`Artifact`.

    A backend that has the code of a :meth:`run` without compiling it again has ``code(spec, target)``: it returns that
    :class:`Artifact` after the run, or None for targets for which it has not.

    A kernel whose attribute ``any_leading_dims`` is true also takes tensors whose tokens have several dimensions, or
    none, before the dimensions of a token. PyTorch then makes no view for it.
    """

    def run(self, inputs: Any, out: Any, target: str | None = None) -> Any:
        """Compute the operator and write every element of ``out``.

        ``target`` names the architecture to compile for; None means the device that holds the inputs. A kernel for GPUs
        may return the launches of this call, which later calls of the same kind use with other addresses
        (:mod:`mhc.library.calls`); else it returns None.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against these inputs.
        """

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why this kernel cannot run the specialisation on ``target``, or None where it can.

        ``target`` None is the device that holds the inputs, or an emulator; ``tokens`` None is any number of them.
        """


@dataclass(frozen=True)
class Artifact:
    """The output of a compiler for one kernel and one target.

    ``kind`` is ``cubin``, ``hsaco``, ``zebin``, ``shared-object`` or ``elf`` for machine code. It is ``cuda-source``,
    ``hip-source`` and the like where source was generated and nothing compiled it. ``resources`` holds what the
    toolchain reports of ``registers``, ``spill_bytes``, ``stack_bytes``, ``shared_bytes`` (LDS on AMD) and
    ``threads``; a key that it does not report is absent.
    """

    kind: str
    target: str
    data: bytes = field(repr=False)
    resources: dict[str, int] = field(default_factory=dict)

    @property
    def is_machine_code(self) -> bool:
        """Return whether a compiler made instructions."""
        return not self.kind.endswith("-source")


class KeptCode(Protocol):
    """A kernel whose :meth:`compile` finds, in a cache, what a run of the same specialisation has compiled."""

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target`` with no device."""

    def code(self, spec: Any, target: str) -> Artifact:
        """Return the code of a run."""
        return self.compile(spec, target)


def combined(artifacts: list[Artifact]) -> Artifact:
    """Return the parts of one kernel as one artifact: their code in this order, and the most that any part uses."""
    resources: dict[str, int] = {}
    for part in artifacts:
        for name, amount in part.resources.items():
            resources[name] = max(amount, resources.get(name, amount))
    first = artifacts[0]
    return Artifact(first.kind, first.target, b"".join(part.data for part in artifacts), resources)


class NotSupportedError(ValueError):
    """A kernel cannot run what it was asked for. The text says why."""


def too_many_streams(spec: Any) -> str | None:
    """Return why no compiled kernel takes so many streams, or None where they do."""
    if spec.streams > MAX_STREAMS:
        return f"there are {spec.streams} streams; this backend takes up to {MAX_STREAMS} (reference and inductor more)"
    return None


def with_fp32_products(spec: Any) -> Any:
    """Return the specialisation that a kernel compiles whose products are in fp32, whatever precision is permitted."""
    return replace(spec, precision="fp32") if getattr(spec, "precision", "fp32") != "fp32" else spec


class NoDeviceError(RuntimeError):
    """The device that a backend was asked to run on is not here, or does not work. The text says why."""


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Mark an exception that leaves this block with its stage: ``lower``, ``compile`` or ``launch``."""
    try:
        yield
    except Exception as error:
        if not hasattr(error, "stage"):
            error.stage = name  # type: ignore[attr-defined]
        raise


def names() -> tuple[str, ...]:
    """Return the backends that exist, whether or not their toolchains are installed."""
    return tuple(sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg))


def load(backend: str, op: str, direction: str = "forward") -> Kernel:
    """Return the kernel of ``op`` in one direction, as written in ``backend``.

    Raises:
        LookupError: there is no such backend, or it does not have this operator.
        ImportError: the backend's toolchain is not installed, or does not import.
    """
    kernel = _kernels(backend).get((op, direction))
    if kernel is None:
        raise LookupError(f"backend {backend!r} does not have {op!r} {direction}")
    return kernel


def kernels_of(**operators: Any) -> dict[tuple[str, str], Kernel]:
    """Return the table of a backend whose ``operators`` are modules, by name, with ``FORWARD`` and ``BACKWARD``."""
    return {
        (name, direction): getattr(module, direction.upper())
        for name, module in operators.items()
        for direction in ("forward", "backward")
    }


def operators_of(backend: str) -> Mapping[tuple[str, str], Kernel]:
    """Return the kernels of a backend by operator and direction."""
    return _kernels(backend)


@functools.cache  # of what it returns; an import that fails is tried again
def _kernels(backend: str) -> Mapping[tuple[str, str], Kernel]:
    """Import a backend and return its table."""
    if backend not in names():
        raise LookupError(f"there is no backend {backend!r}; there are {', '.join(names())}")
    table: Mapping[tuple[str, str], Kernel] = importlib.import_module(f"{__name__}.{backend}.operators").KERNELS
    return table


def default_backend(device: torch.device) -> str:
    """Return ``triton`` on a GPU, ``reference`` elsewhere."""
    return "triton" if device.type == "cuda" else "reference"
