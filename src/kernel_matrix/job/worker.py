"""The kernel's process: import the backend, and call the suite's functions that run it.

The process that compares starts this program and sends it calls. A call names a function, such as ``kernel_side:run``,
of a module in the suite's folder. The function gets the arrays and the options of the call, and returns a pair: what
JSON can hold, and arrays by name. Results and errors go back as data; nothing of this process reaches the comparison
but those bytes.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, TypeAlias

from kernel_matrix.job import wire
from kernel_matrix.job.inputs import Array

Answer: TypeAlias = "tuple[Any, Mapping[str, Array]]"

_to_comparing: BinaryIO | None = None  # the stream to the process that compares


def enter_stage(name: str) -> None:
    """Say that the call has reached this stage (``import``, ``lower``, ``compile``, ``launch``): a crash shows it."""
    if _to_comparing is not None:
        wire.send(_to_comparing, {"kind": "stage", "stage": name})


class Unavailable(Exception):  # noqa: N818 (it is no error: the device is not here)
    """The device that the case needs is not here. The text says why."""


def serve(calls: wire.Readable, answers: BinaryIO) -> None:
    """Answer calls until the stream of calls ends."""
    global _to_comparing
    _to_comparing = answers
    while True:
        try:
            call, arrays = wire.receive(calls)
        except wire.BrokenMessageError:
            return
        try:
            value, results = _function(call["function"])(arrays, **call["options"])
            wire.send(answers, {"kind": "result", "value": value, "call": call["call"]}, results)
        except BaseException as error:  # SystemExit too: a kernel does not end its process unseen
            wire.send(answers, {**_described(error), "call": call["call"]})


def _function(name: str) -> Callable[..., Answer]:
    module, _, function = name.partition(":")
    result: Callable[..., Answer] = getattr(importlib.import_module(module), function)
    return result


def _described(error: BaseException) -> dict[str, Any]:
    unavailable = isinstance(error, Unavailable)
    return {
        "kind": "error",
        "text": str(error) if unavailable else "".join(traceback.format_exception_only(error)).strip(),
        "detail": "".join(traceback.format_exception(error)),
        "stage": getattr(error, "stage", None),
        "unavailable": unavailable,
    }


def main() -> int:
    """Serve the calls of the process that compares; the arguments are two file descriptors and the suite's folder."""
    calls, answers, suite = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    # Compilers keep many objects. By default Python looks through them so often that it takes a twentieth of a job.
    gc.set_threshold(50_000, 20, 50)
    sys.path.insert(0, suite)
    with os.fdopen(calls, "rb", buffering=0) as incoming, os.fdopen(answers, "wb") as outgoing:
        serve(incoming, outgoing)
        outgoing.flush()
    gc.freeze()  # else Python looks through all objects several times as it ends: 0.6 s of a process with a compiler
    return 0
