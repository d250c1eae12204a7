"""The interpreters of the emulators: C++ that takes 15 CPU-seconds to compile, so all test processes share one."""

from __future__ import annotations

import fcntl
from functools import cache
from pathlib import Path

import pytest

from gfx_emulator import library
from ptx_emulator import launch

FOLDER = Path(__file__).parents[2] / "build" / "cache" / "mhc" / "gfx_emulator"  # the matrix's


@cache
def kept_interpreter(*, ptx: bool = False) -> dict[str, str]:
    """Return the variable that names the folder of compiled interpreters, with AMD's in it, or with that of PTX.

    The first process that asks compiles it, and the others wait.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("a") as lock, pytest.MonkeyPatch.context() as patch:
        fcntl.flock(lock, fcntl.LOCK_EX)
        patch.setenv(library.CACHE, str(FOLDER))
        (launch.library if ptx else library.library)()
    return {library.CACHE: str(FOLDER)}


def unoptimized() -> dict[str, str]:
    """Return the variables for an interpreter of PTX that compiles in a third of the time, and has the same numbers."""
    folder = FOLDER.with_name("ptx_unoptimized")
    folder.mkdir(parents=True, exist_ok=True)
    compiler = folder / "g++"
    compiler.write_text('#!/bin/sh\nexec g++ "$@" -O0\n')
    compiler.chmod(0o755)
    return {library.CACHE: str(folder), "CXX": str(compiler)}
