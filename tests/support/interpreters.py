"""The interpreters of the emulators: C++ that takes 15 CPU-seconds to compile, so all test processes share one."""

from __future__ import annotations

import fcntl
import os
from functools import cache
from pathlib import Path

import pytest

from gpu_emulators.amd import library
from gpu_emulators.common.library import CACHE
from gpu_emulators.nvidia import launch

FOLDER = Path(__file__).parents[2] / "build" / "cache" / "mhc"
OPTIMIZED = FOLDER / "gpu_emulators"  # the matrix's


@cache
def kept_interpreter(*, ptx: bool = False) -> dict[str, str]:
    """Return the variables for compiled interpreters, with AMD's compiled, or, at night, with that of PTX.

    The first process that asks compiles it, and the others wait. AMD's is not optimized, as the matrix has the
    optimized one.
    """
    variables = {CACHE: str(OPTIMIZED)} if ptx else unoptimized()
    folder = Path(variables[CACHE])
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for name, value in variables.items():
            patch.setenv(name, value)
        (launch.library if ptx else library.library)()
    return variables


def unoptimized() -> dict[str, str]:
    """Return the variables for interpreters that compile in a third of the time, and have the same numbers."""
    folder = FOLDER / "unoptimized"
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "g++"
    if not compiler.exists():
        made = folder / f"g++.{os.getpid()}"
        made.write_text('#!/bin/sh\nexec g++ "$@" -O0\n')
        made.chmod(0o755)
        made.rename(compiler)
    return {CACHE: str(folder), "CXX": str(compiler)}
