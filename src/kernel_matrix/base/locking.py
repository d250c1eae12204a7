"""Lock a file, so that only one process at a time writes into a folder."""

from __future__ import annotations

import errno
import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernel_matrix.base.errors import UserError

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class BusyError(Exception):
    """Another process holds the lock."""


@contextmanager
def locked(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock of the file until the block ends. The system releases it when the process that holds it dies.

    Raises:
        BusyError: another process holds it, and ``wait`` is false.
        UserError: its file system has no locks, so nothing would keep two machines apart.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(str(path)) from None
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            raise UserError(
                f"{path.parent}: its file system has no locks (flock: {error.strerror}; NFS needs lockd). Give a "
                "folder that has them: --build FOLDER."
            ) from None
        yield
