"""Compile a kernel for a target that need not be here: a service for the kernel's side of a suite.

``of_triton`` and ``of_tilelang`` return an :class:`Artifact`. A function of the suite's kernel_side.py returns
:func:`sent` of it, and its test calls ``case.compile("kernel_side:function")``.
The recorder of launches uses the same modules, in environments that may have no NumPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .artifact import Artifact


def sent(artifacts: Artifact | Mapping[str, Artifact]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return one artifact, or several by name, in the form in which the kernel's process answers ``case.compile``."""
    import numpy as np

    named = {"artifact": artifacts} if isinstance(artifacts, Artifact) else dict(artifacts)
    told = {name: {"kind": one.kind, "resources": dict(one.resources)} for name, one in named.items()}
    return told, {name: np.frombuffer(one.code, np.uint8) for name, one in named.items()}


def of_triton(kernel: Any, target: str, types: Mapping[str, str], **given: Any) -> Artifact:
    """Compile a kernel of Triton for a target such as ``sm_90`` or ``gfx942``.

    ``types`` are the types of its arguments as Triton writes them, ``*fp32`` or ``i32``. ``constants`` are the others,
    and ``options`` are the compiler's, such as ``num_warps``. Pointers are taken to be aligned to 16 bytes, as
    PyTorch's allocator aligns them, and ``aligned`` are the numbers that are a multiple of 16.

    Raises:
        LimitError: it compiles, and the target cannot launch it.
    """
    from .triton import compile_kernel

    return compile_kernel(kernel, target, types, **given)


def of_tilelang(program: Any, target: str, **given: Any) -> Artifact:
    """Compile a program of TileLang (a ``PrimFunc``) for a target such as ``sm_90`` or ``gfx942``.

    ``pass_configs`` and ``compile_flags`` go to ``tilelang.compile``. For AMD the result is source where this
    machine has no hipcc.

    Raises:
        LimitError: it compiles, and the target cannot launch it.
        CompilerMissingError: nvcc is not on this machine.
    """
    from .tilelang import compile_program

    return compile_program(program, target, **given)
