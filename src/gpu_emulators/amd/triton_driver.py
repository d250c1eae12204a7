"""A driver for Triton whose GPU is the emulator of AMD's machine code."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from triton.backends.compiler import GPUTarget

from gpu_emulators.amd.decoding import TARGETS, family_of
from gpu_emulators.amd.launch import Program
from gpu_emulators.common.errors import FoundError
from gpu_emulators.common.triton_driver import MOST_THREADS, EmulatedDriver, Launcher, Utils, active

__all__ = ["AmdDriver", "FoundError", "Launcher", "emulated"]

_SHARED = {"gfx950": 160 << 10, "gfx1250": 320 << 10}  # bytes of LDS that a workgroup may have; 64 KiB elsewhere


class _Utils(Utils):
    """The answers to what Triton asks of a driver, apart from launches."""

    def get_device_properties(self, _: int) -> dict[str, Any]:
        """Return the properties of the emulated GPU that a compilation or a package may look at."""
        return {
            "max_shared_mem": _SHARED.get(self._target, 64 << 10),
            "multiprocessor_count": 1,
            "warpSize": _wave(self._target),
            "arch": self._target,
        }

    def load_binary(self, name: str, data: bytes, _: int, __: int) -> tuple[Any, Any, int, int, int]:
        """Load a kernel; the counts of registers and spills are not known here."""
        program = Program(data, self._target, name)
        return program, program, 0, 0, MOST_THREADS


class AmdDriver(EmulatedDriver):
    """Triton's driver of one emulated AMD GPU."""

    targets = TARGETS
    first_device = 0
    utils_of = _Utils

    def get_current_target(self) -> GPUTarget:
        """Return the emulated target."""
        return GPUTarget("hip", self._target, _wave(self._target))


def _wave(target: str) -> int:
    return 64 if target.startswith("gfx9") else 32


def emulated(target: str) -> AbstractContextManager[EmulatedDriver]:
    """Let Triton launch on the emulator inside this block.

    Raises:
        FoundError: by the launch that did it, where a kernel did something that is a fault.
        EmulatorError: the emulator has no such target.
    """
    family_of(target)
    return active(AmdDriver(target))
