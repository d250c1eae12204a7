"""Check tables while something else is done: DuckDB, which looks at their rows, needs no lock of Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from kernel_matrix.base.errors import UserError
from kernel_matrix.store import names
from kernel_matrix.store.validation import Bounds


@contextmanager
def checked_ahead(folders: Sequence[Path], bounds: Bounds) -> Iterator[None]:
    """Check the tables below some folders while the block works.

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
