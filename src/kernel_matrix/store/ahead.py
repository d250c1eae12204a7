"""Check tables while something else is done, and know which files were checked.

DuckDB looks at the rows of tables and needs no lock of Python. No two threads look at the same files.

"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Condition, Event, Thread

from kernel_matrix.base.errors import UserError
from kernel_matrix.store import names
from kernel_matrix.store.names import JobFiles
from kernel_matrix.store.validation import Bounds

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


@contextmanager
def checked_ahead(folders: Sequence[Path], bounds: Bounds) -> Iterator[None]:
    """Check the tables below some folders beside the work of the block.

    Nothing is said of what is wrong. Whoever checks the same files afterwards, with the same bounds, finds the good
    ones known, waits for those that are just looked at, and looks at the others again. If the block fails, no more are
    begun.
    """
    stop = Event()
    thread = Thread(target=_check, args=(folders, bounds, stop), name="tables")
    thread.start()
    try:
        yield
    except BaseException:
        stop.set()
        raise
    finally:
        thread.join()


def _check(folders: Sequence[Path], bounds: Bounds, stop: Event) -> None:
    from kernel_matrix.store import checks  # DuckDB and pyarrow take long to import

    with suppress(UserError, OSError):  # the next who asks for these files says it
        for _ in checks.checked(names.find_results(folders, bounds).runs, bounds):
            if stop.is_set():
                return
