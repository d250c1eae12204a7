"""The kernels of Triton for Ascend NPUs: device functions that are compiled ahead of time, and run by nothing yet."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mhc.backends import Artifact, NoDeviceError, NotSupportedError, combined, stage, too_many_streams
from mhc.backends import with_fp32_products as in_fp32
from mhc.backends.triton_ascend.source import Source

POINTERS = {torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.float32: "*fp32"}
# Of matrix.yaml's targets the name that the compiler has.
TARGETS = {"ascend910b2": "Ascend910B2"}
_MOST_COLUMNS = 256  # with 32 rows of phi, and two buffers each, they take a third of a core's 192 KiB


class Kernel:
    """One operator in one direction: the device functions that ``sources`` returns, in the order of their launches."""

    def __init__(self, sources: Callable[[Any], Sequence[Source]]) -> None:
        self.sources = sources
        self._compiled = functools.cache(self._compile)

    def supports(self, spec: Any, target: str | None, tokens: int | None = None) -> str | None:
        """Return why the kernel is not made for ``spec`` on ``target``, or None where it is."""
        if target is not None and target not in TARGETS:
            return f"{target} is none of {', '.join(TARGETS)}"
        return too_many_streams(spec)

    def run(self, inputs: Any, out: Any, target: str | None = None) -> None:
        """Refuse: these kernels are only compiled.

        Raises:
            NoDeviceError: always.
        """
        raise NoDeviceError("triton_ascend: no launcher for Ascend NPUs is written here; its kernels are only lowered")

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target``: HIVM, or machine code where Huawei's ``hivmc`` is on PATH.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against ``spec`` on ``target``.
            RuntimeError: the compiler failed; the message is its own.
        """
        with stage("lower"):
            reason = self.supports(spec, target)
            if reason is not None:
                raise NotSupportedError(f"triton_ascend: {reason}")
        return self._compiled(in_fp32(spec), target)

    def _compile(self, spec: Any, target: str) -> Artifact:
        from mhc.backends.triton_ascend.hivm import compile_source

        return combined([compile_source(source, target, TARGETS[target]) for source in self.sources(spec)])


def padded(size: int) -> int:
    """Return the next power of two, which a tile's side must be."""
    return 1 << (size - 1).bit_length()


def columns(hidden: int) -> dict[str, int]:
    """Return the width of a stream, and the columns that a program takes at once."""
    return {"HIDDEN": hidden, "BLOCK_HIDDEN": min(_MOST_COLUMNS, padded(hidden))}
