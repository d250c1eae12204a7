"""The files whose rows this process has looked at, so that no two of its threads look at the same ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition

from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import Bounds

Known = tuple[Bounds, tuple[tuple[str, int, int], ...]]
GOOD: set[Known] = set()  # those that were found to be good
_BUSY: set[Known] = set()  # those that a thread looks at
_CHANGED = Condition()  # a thread has ended


def state_of(files: JobFiles, bounds: Bounds) -> Known:
    """Return what changes when somebody writes one of the files; nothing if one cannot be looked at."""
    try:
        states = ((str(path), status.st_size, status.st_mtime_ns) for path in files.paths if (status := path.stat()))
        return bounds, tuple(states)
    except OSError:
        return bounds, ()


@contextmanager
def alone(states: set[Known]) -> Iterator[None]:
    """Wait until no other thread looks at files with these states, and let no other look at them in the block."""
    with _CHANGED:
        _CHANGED.wait_for(lambda: _BUSY.isdisjoint(states))
        _BUSY.update(states)
    try:
        yield
    finally:
        with _CHANGED:
            _BUSY.difference_update(states)
            _CHANGED.notify_all()
