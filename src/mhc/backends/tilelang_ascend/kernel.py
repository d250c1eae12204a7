"""The kernels of TileLang for Ascend NPUs: prim_funcs that are compiled ahead of time, and run by nothing yet."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mhc.backends import Artifact, NoDeviceError, NotSupportedError, combined, stage, too_many_streams
from mhc.backends import with_fp32_products as in_fp32
from mhc.backends.tilelang_ascend.ascendc import compile_kernel

TARGETS = {"ascend950": "dav-3510"}  # of matrix.yaml's targets the name that the vendor's compiler has


class Kernel:
    """One operator in one direction: the kernels that ``functions`` make of a spec, in the order of their launches."""

    def __init__(self, *functions: Callable[[Any], Any]) -> None:
        self.functions = functions
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
        raise NoDeviceError(
            "tilelang_ascend: no launcher for Ascend NPUs is written here; its kernels are only lowered"
        )

    def compile(self, spec: Any, target: str) -> Artifact:
        """Compile for ``target``: AscendC, or machine code where Huawei's ``bisheng`` is.

        Raises:
            NotSupportedError: :meth:`supports` has a reason against ``spec`` on ``target``.
            RuntimeError: what came out is no AscendC of a kernel, or the compiler failed.
        """
        with stage("lower"):
            reason = self.supports(spec, target)
            if reason is not None:
                raise NotSupportedError(f"tilelang_ascend: {reason}")
        return self._compiled(in_fp32(spec), target)

    def _compile(self, spec: Any, target: str) -> Artifact:
        return combined([compile_kernel(function, spec, target, TARGETS[target]) for function in self.functions])
