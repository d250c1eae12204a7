"""A driver for Triton whose GPU is the emulator of PTX: kernels that a program launches run on this CPU.

Triton compiles for the target as it would for a card, up to its PTX, and calls this driver in place of NVIDIA's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend

from gpu_emulators.common.errors import EmulatorError, FoundError
from gpu_emulators.common.triton_driver import MOST_THREADS, EmulatedDriver, Utils, active
from gpu_emulators.common.triton_driver import Launcher as AnyLauncher
from gpu_emulators.nvidia.launch import TARGETS, Program

__all__ = ["FoundError", "Launcher", "PtxDriver", "emulated"]

_SHARED = {"sm_80": 163 << 10, "sm_86": 99 << 10, "sm_89": 99 << 10, "sm_90": 227 << 10}  # bytes that a block may have


class _PtxBackend(CUDABackend):  # type: ignore[misc]  # triton has no types
    """Triton's compiler for NVIDIA, which ends at PTX."""

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.binary_ext = "ptx"

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        super().add_stages(stages, options, language)
        stages.pop("cubin")

    def hash(self) -> str:
        """Return another key than the whole compiler has: the results are not the same."""
        return f"ptx only {super().hash()}"


class _Utils(Utils):
    """The answers to what Triton asks of a driver, apart from launches."""

    def get_device_properties(self, _: int) -> dict[str, Any]:
        """Return the properties of the emulated GPU that a compilation or a package may look at."""
        return {
            "max_shared_mem": _SHARED[self._target],
            "multiprocessor_count": 1,
            "max_num_regs": 65536,
            "warpSize": 32,
            "sm_clock_rate": 1,
            "mem_clock_rate": 1,
            "mem_bus_width": 1,
        }

    def load_binary(self, name: str, data: bytes, _: int, __: int) -> tuple[Any, Any, int, int, int]:
        """Load a kernel; the counts of registers and spills are not known here."""
        program = Program(data.decode(), name)
        return program, program, 0, 0, MOST_THREADS


class Launcher(AnyLauncher):
    """The launches of one compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        """Take the kernel.

        Raises:
            EmulatorError: it needs what the emulator does not have.
        """
        super().__init__(source, metadata)
        if getattr(metadata, "num_ctas", 1) > 1:
            raise EmulatorError(f"{metadata.name} needs clusters of blocks, which the emulator does not have")


class PtxDriver(EmulatedDriver):
    """Triton's driver of one emulated NVIDIA GPU."""

    targets = TARGETS
    first_device = 100
    utils_of = _Utils
    launcher = Launcher

    def get_current_target(self) -> GPUTarget:
        """Return the emulated target."""
        return GPUTarget("cuda", int(self._target.removeprefix("sm_")), 32)


@contextmanager
def emulated(target: str) -> Iterator[EmulatedDriver]:
    """Let Triton launch on the emulator inside this block.

    Raises:
        FoundError: by the launch that did it, where a kernel did something that is a fault.
    """
    backends = triton.backends.backends
    before = backends["nvidia"]
    backends["nvidia"] = type(before)(compiler=_PtxBackend, driver=before.driver)
    try:
        with active(PtxDriver(target)) as driver:
            yield driver
    finally:
        backends["nvidia"] = before
