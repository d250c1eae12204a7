"""Run code objects for AMD's GPUs without one: in the emulator that is in ``src/gpu_emulators/amd``."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from mhc.backends import Artifact, NoDeviceError, stage

if TYPE_CHECKING:
    from gpu_emulators.amd.module import Module


def emulates(target: str | None) -> bool:
    """Return whether tensors on a CPU go to the emulator for this target."""
    return target is not None and target.startswith("gfx")


def module(artifact: Artifact) -> Module:
    """Return the kernels of a code object.

    Raises:
        NoDeviceError: the artifact is source, because this machine has no compiler for it.
    """
    if not artifact.is_machine_code:
        raise NoDeviceError(f"hipcc is missing: {artifact.target} is emulated from machine code, and this is source")
    with stage("compile"), ready():
        from gpu_emulators.amd.module import Module

        return Module(artifact.data, artifact.target)


@contextmanager
def driver_of_triton(target: str) -> Iterator[None]:
    """Let Triton launch on the emulator inside this block."""
    with ready():
        from gpu_emulators.amd.triton_driver import emulated

        with emulated(target):
            yield


@contextmanager
def ready() -> Iterator[None]:
    """Keep what the emulator compiles next to the kernels, and say where the emulator has no compiler for itself.

    The variable that says so is set until the block ends.

    Raises:
        NoDeviceError: there is no compiler to build the emulator with.
    """
    from gpu_emulators.common.errors import NoCompilerError
    from gpu_emulators.common.library import CACHE

    is_ours = "MHC_CACHE_DIR" in os.environ and CACHE not in os.environ
    if is_ours:
        os.environ[CACHE] = str(Path(os.environ["MHC_CACHE_DIR"], "gpu_emulators"))
    try:
        yield
    except NoCompilerError as error:
        raise NoDeviceError(str(error)) from None
    finally:
        if is_ours:
            os.environ.pop(CACHE, None)
