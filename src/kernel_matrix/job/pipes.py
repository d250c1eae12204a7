"""The pipes between the two processes of a job."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
from io import FileIO

_PIPE_BYTES = 1 << 20
_LOOK = 0.5  # seconds between two looks at whether a process that does not answer still runs


def pipe() -> tuple[int, int]:
    """Return the ends of a pipe, as large as a user may make one: arrays go through it in few pieces."""
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # beyond what the system grants this user
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return reading, writing


class Answers:
    """The stream of a process's answers. It ends with the process, even if a child of it still holds the pipe."""

    def __init__(self, stream: FileIO, process: subprocess.Popen[bytes]) -> None:
        """``stream`` is the reading end of the pipe into which ``process`` writes."""
        self._stream, self._process = stream, process

    def readinto(self, buffer: memoryview) -> int | None:
        """Fill a part of the buffer and return how much; 0 at the end of the stream or of the process."""
        while not self._is_readable(_LOOK) and self._process.poll() is None:
            pass
        return self._stream.readinto(buffer) if self._is_readable(0) else 0

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()

    def _is_readable(self, seconds: float) -> bool:
        """Return whether there is something to read, or the end, within so many seconds."""
        poll = select.poll()
        poll.register(self._stream, select.POLLIN)
        return bool(poll.poll(1000 * seconds))
