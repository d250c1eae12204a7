"""Run a Python program in this process as ``python`` itself would, and say how it ended."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_OWN = str(Path(__file__).parent)


@dataclass(frozen=True)
class Status:
    """The exit status of a program, and its error in words; empty if it had none."""

    code: int
    error: str = ""


def run(words: Sequence[str]) -> Status:
    """Run a script, ``-m MODULE`` or ``-c TEXT`` with its arguments."""
    try:
        _run(list(words))
    except SystemExit as end:
        return _status(end)
    except KeyboardInterrupt:
        return Status(130, "it was interrupted")
    except BaseException as error:
        own = _of_program(error.__traceback__)
        traceback.print_exception(type(error), error, own)
        frames = traceback.extract_tb(own)
        place = next((frame for frame in reversed(frames) if not frame.filename.startswith(_OWN)), frames[-1])
        return Status(1, f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})")
    return Status(0)


def _run(words: list[str]) -> None:
    if words[0] == "-m":
        sys.argv = words[1:]
        _see(os.getcwd())  # noqa: PTH109  as Python writes it
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    elif words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        _see("")
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102  as Python does
    else:
        sys.argv = words
        _see(os.path.dirname(os.path.abspath(words[0])))  # noqa: PTH100, PTH120  as Python writes it
        runpy.run_path(words[0], run_name="__main__")


def _see(folder: str) -> None:
    """Let the program import what is in its folder, unless Python was started with ``-P`` or ``-I``."""
    if not getattr(sys.flags, "safe_path", False):  # from Python 3.11 on
        sys.path.insert(0, folder)


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this module and of runpy, unless it has no others."""
    inner = trace
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith((__file__, "<frozen")):
        inner = inner.tb_next
    return inner or trace


def _status(end: SystemExit) -> Status:
    """Return the status that Python gives a program that ends itself."""
    if end.code is None or end.code == 0:
        return Status(0)
    if isinstance(end.code, int):
        return Status(end.code & 0xFF, f"it ended with status {end.code}")
    print(end.code, file=sys.stderr)  # noqa: T201  as Python does
    return Status(1, str(end.code))
