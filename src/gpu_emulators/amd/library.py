"""The interpreter of AMD's machine code, its handlers, and a launch as it reads one."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import ClassVar

from gpu_emulators.amd import records
from gpu_emulators.common.errors import EmulatorError
from gpu_emulators.common.library import opened

SOURCES = Path(__file__).with_name("native")
_NAMES = 1 << 16  # bytes that the names of all handlers may take


class Launch(ctypes.Structure):
    """A launch as ``native/launch.cc`` reads it."""

    _fields_: ClassVar = [
        ("grid", ctypes.c_uint32 * 3),
        *(
            (name, ctypes.c_uint32)
            for name in (
                *("threads", "waves", "lanes", "family", "lds", "scratch"),
                *("user_scalars", "group_ids", "argument_register", "has_scratch_buffer"),
                *("block_x", "block_y", "item_ids", "has_packed_ids"),
            )
        ),
        *((name, ctypes.c_uint64) for name in ("arguments", "text", "places", "before", "words", "packet", "queue")),
        *(
            (name, ctypes.c_uint32)
            for name in ("preloaded", "start", "spoiled", "store_states", "mode", "registers", "has_number")
        ),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """Return the interpreter, compiled if no earlier one is of the same source.

    Raises:
        NoCompilerError: there is no C++ compiler.
        EmulatorError: the compiler failed.
    """
    return opened(SOURCES, records.SIZE)


def handler_names() -> frozenset[str]:
    """Return the names of the operations that the interpreter has."""
    buffer = ctypes.create_string_buffer(_NAMES)
    size = library().handler_names(buffer, _NAMES)
    if size >= _NAMES:
        raise EmulatorError(f"the names of the handlers have {size} bytes")
    return frozenset(buffer.value.decode().split())


@functools.cache
def handler(name: str) -> int | None:
    """Return the address of an operation's handler; None where there is none."""
    address: int | None = library().find_handler(name.encode())
    return address
