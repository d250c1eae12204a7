"""Files -> those that some process of this machine has opened in a while, as the kernel of Linux tells it."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

_MODIFY, _CLOSE_WRITE, _CLOSE_NOWRITE = 0x2, 0x8, 0x10
_LOST = 0x4000  # events were, since there were too many
_FIRST_ONE = 0x80000000
_EVENT = struct.Struct("iIII")  # the watch, what happened, and two that are 0 for a file


class Opened:
    """Watch files until the end is asked for."""

    def __init__(self, files: Mapping[str, Iterable[Path]]) -> None:
        """``files`` has the places of each file by its name: what is opened in one of them is opened."""
        self._watches: dict[int, set[str]] = {}  # two names may be of one file
        self._descriptor = -1
        with suppress(OSError, AttributeError):
            self._watch(files)

    def end(self) -> dict[str, bool] | None:
        """Return the files that were opened, and whether each was read before anybody wrote it; None if unknown."""
        if self._descriptor < 0:
            return None
        try:
            events = [*self._events()]
        finally:
            self.close()
        if any(mask & _LOST for _, mask in events):
            return None
        first = {watch: mask for watch, mask in reversed(events) if watch in self._watches and mask & 0xFFF}
        found: dict[str, bool] = {}
        for watch, mask in first.items():
            for name in self._watches[watch]:
                found[name] = found.get(name, False) or bool(mask & _CLOSE_NOWRITE)
        return found

    def close(self) -> None:
        """Watch no more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def _watch(self, files: Mapping[str, Iterable[Path]]) -> None:
        """Ask for the first event of each file.

        Raises:
            OSError: the machine has no room for so many.
        """
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = library.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        mask = ctypes.c_uint32(_MODIFY | _CLOSE_WRITE | _CLOSE_NOWRITE | _FIRST_ONE)
        for name, places in files.items():
            for place in places:
                watch = library.inotify_add_watch(self._descriptor, os.fsencode(place), mask)
                if watch >= 0:
                    self._watches.setdefault(watch, set()).add(name)
                elif place.exists():
                    self.close()
                    raise OSError(ctypes.get_errno(), "inotify", str(place))

    def _events(self) -> Iterable[tuple[int, int]]:
        with suppress(BlockingIOError):
            while data := os.read(self._descriptor, 1 << 20):
                yield from ((watch, mask) for watch, mask, *_ in _EVENT.iter_unpack(data))
