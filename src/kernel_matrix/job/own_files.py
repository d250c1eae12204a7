"""Open the harness's own files where a kernel can write too: nothing that a kernel put in their place is opened.

A kernel runs as the same user. It could put a link in the place of a log, and the end of another file would come into a
record; or a pipe, and whoever opens it would wait for ever.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path

_LINES = 60  # the last of an output that go into a case
_BYTES = 1 << 18  # of the end of a file in which these lines are looked for
_REFUSED = (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR, errno.ENOTDIR)  # for a link, a pipe, a folder


def opened(path: Path, flags: int) -> int:
    """Open a file, and return its descriptor.

    Raises:
        OSError: it is a link, has a second name, or is no file.
    """
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise replaced(path) if error.errno in _REFUSED else error from None
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink > 1:
        os.close(file)
        raise replaced(path)
    return file


def replaced(path: Path) -> OSError:
    """Return the error of a file in whose place something else is."""
    return OSError(errno.ESTALE, "something else was put in the place of a file of the harness", str(path))


def remove(path: Path) -> None:
    """Remove what is at a path, also a folder that was put there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def write(path: Path, content: str | bytes) -> None:
    """Write a new file, in the place of what is there.

    Raises:
        OSError: something is put there at this moment, or there is no room.
    """
    remove(path)
    with os.fdopen(opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


def content_of(path: Path) -> bytes:
    """Return what is in a file; nothing if it is not there.

    Raises:
        OSError: something else is there.
    """
    try:
        file = opened(path, os.O_RDONLY)
    except FileNotFoundError:
        return b""
    with os.fdopen(file, "rb") as reading:
        return reading.read()


def text_of(path: Path) -> str:
    """Return the text of a file, as :func:`content_of` does."""
    return content_of(path).decode("utf-8", errors="replace")


def last_lines(file: int, start: int = 0) -> str:
    """Return the last lines of an open file, behind its first ``start`` bytes."""
    size = os.fstat(file).st_size
    begin = max(start, size - _BYTES)
    text = os.pread(file, max(0, size - begin), begin).decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-_LINES:])
