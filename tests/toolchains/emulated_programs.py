"""Run programs with kernels of Triton on emulated GPUs, and write a line for each: what the emulators' tests read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

Programs = Iterable[tuple[Callable[[str], Any], Iterable[str]]]  # each with its targets


def run_all(programs: Programs, emulated: Callable[[str], AbstractContextManager[Any]]) -> None:
    """Run each program on its targets; an exception is its result."""
    for program, targets in programs:
        for target in targets:
            with emulated(target):
                try:
                    result = program(target)
                except Exception as error:
                    result = {"raised": f"{type(error).__name__}: {error}"}
            print(json.dumps([program.__name__, target, result]), flush=True)
