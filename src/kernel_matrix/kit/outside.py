"""Notes of Python on a process: files that it writes, connections that it opens."""

from __future__ import annotations

import os
import sys
from typing import Any

# The events of sys.addaudithook, and what each says. The first argument names the file or the address.
_EVENTS = {
    "os.remove": "removed",
    "os.rename": "renamed",
    "os.mkdir": "made",
    "os.rmdir": "removed",
    "os.truncate": "cut",
    "os.link": "linked",
    "os.symlink": "linked",
    "os.chmod": "changed the mode of",
    "socket.connect": "connected to",
    "socket.bind": "listened at",
    "socket.sendto": "sent to",
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOT_SEEN = ("/dev/", "/proc/")  # a device is opened to be written, and a pipe is no file
_BYTECODE = ("__pycache__", ".pyc")  # a module that is imported late

_done: list[str] = []
_hooked: list[bool] = []  # a hook stays for the whole life of a process


def done() -> tuple[str, ...]:
    """Return what the process has done outside of itself, in words, since the first call of this function."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_note)
    return tuple(_done)


def _note(event: str, args: tuple[Any, ...]) -> None:
    if event == "open":
        path, _, flags = args
        if not isinstance(flags, int) or not flags & _WRITES or isinstance(path, int):
            return
        word = "wrote"
    elif event in _EVENTS:
        word, path = _EVENTS[event], args[1] if event.startswith("socket.") else args[0]
    else:
        return
    where = os.fsdecode(path) if isinstance(path, (str, bytes)) else str(path)
    if not where.startswith(_NOT_SEEN) and not any(part in where for part in _BYTECODE):
        _done.append(f"{word} {where}")
