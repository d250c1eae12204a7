"""The journal of a job: one JSON object a line. Each line is on the disk before the process goes on, so none is lost.

The plugin writes ``job`` once per process, ``start`` and ``end`` around each case with a ``stage`` for every step in
between, ``quiet`` and ``measured`` around what is timed, and ``broken`` when the suite itself does not import. The
supervisor of the process writes the ``end`` that a process could not write because it was killed, hung or crashed, and
``lost`` for a case that ended with its machine.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KEY = "key"  # the file that brings a container the key that entries are signed with, until start.py takes it
FIRST_STAGE = "import"  # the stage of a case until its test names another

_MOST = 1024  # bytes of a key
_given = ""  # the key that came through the pipe
_SIGNATURE = ', "signature": "'

Entry = dict[str, Any]


class Journal:
    """Append to a journal, and read it back."""

    def __init__(self, path: Path, key: str = "") -> None:
        """Neither make nor open the file yet; with a ``key``, entries are signed and other entries are not believed."""
        self.path = path
        self.key = key
        self._read = 0  # bytes that new_entries has read
        self._file: int | None = None
        self._synced = 0.0  # when all entries were on the disk

    def write(self, kind: str, *, every: float = 0.0, **fields: Any) -> None:
        """Append one entry and make sure that it outlives this process.

        It outlives the machine too. With ``every``, this is sure only of entries that are older than so many seconds:
        a suite may have thousands of tests of a millisecond, and a disk takes ten times as long for each entry.

        Raises:
            OSError: there is no room for it, or the like.
        """
        text = json.dumps({"entry": kind, "time": time.time(), **fields}, default=str)
        line = f"{self._signed(text)}\n".encode()
        if self._file is None:
            # Kept open: a process that outlives its run goes on in that run's file, and not in the next one's.
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":  # a line that was cut short
            line = b"\n" + line
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        if time.monotonic() - self._synced >= every:
            os.fsync(self._file)
            self._synced = time.monotonic()

    def close(self) -> None:
        """Close the file; the next entry opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def new_entries(self) -> Iterator[Entry]:
        """Yield the entries since the last call; a last line that is not whole yet is left for the next call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                yield from self._entry(line.decode(errors="replace").rstrip("\n"))

    def _entry(self, line: str) -> Iterator[Entry]:
        """Yield the entry of a line; one that says ``forged`` if somebody else than the harness has written it."""
        entry = _parsed(line)
        if entry is None:  # it was cut short by a death or a full disk
            return
        text, _, _ = line.rpartition(_SIGNATURE)
        if self.key and not hmac.compare_digest(line, self._signed(f"{text}}}")):
            entry = {"entry": "forged", "text": line}
        yield entry

    def _signed(self, text: str) -> str:
        """Return a JSON object with its signature as the last of its keys; as it is where there is no key."""
        if not self.key:
            return text
        signature = hmac.new(self.key.encode(), text.encode(), "sha256").hexdigest()[:16]
        return f'{text[:-1]}{_SIGNATURE}{signature}"}}'


def taken_key(journal: Path) -> str:
    """Return the key that the harness has given to this process, for the entries of the journal.

    A process of this machine gets it through a pipe, and a container by a file, which is taken away here.
    """
    global _given
    given, _given = _given, ""
    path = journal.with_name(KEY)
    if given or not path.exists():
        return given
    key = path.read_text()
    path.unlink()
    return key


def receive_key() -> None:
    """Take the key from the standard input, before anything else of this process runs."""
    global _given
    with contextlib.suppress(OSError):  # there is none
        _given = "" if os.isatty(0) else os.read(0, _MOST).decode()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _parsed(text: str) -> Entry | None:
    try:
        entry = json.loads(text)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "entry" in entry else None
