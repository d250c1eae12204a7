"""The journal of a job: one JSON object a line. Each line is on the disk before the process goes on, so none is lost.

The plugin writes ``job`` once per process, ``start`` and ``end`` around each case with a ``stage`` for every step in
between, ``quiet`` and ``measured`` around what is timed, and ``broken`` when the suite itself does not import. The
supervisor of the process writes the ``end`` that a process could not write because it was killed, hung or crashed, and
``lost`` for a case that ended with its machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kernel_matrix.job import own_files

FIRST_STAGE = "import"  # the stage of a case until its test names another

FORGED = "forged"  # the kind of an entry that neither the harness nor the comparing process has written

_SIGNATURE = ', "signature": "'

Entry = dict[str, Any]


class Journal:
    """Append to a journal, and read it back. Its file is opened once: what is put in its place later is not read."""

    def __init__(self, path: Path, key: str = "") -> None:
        """Neither make nor open the file yet; with a ``key``, entries are signed and other entries are not believed."""
        self.path = path
        self.key = key
        self.sum = hashlib.sha256()  # of the lines that are read and not forged, up to the first one that is
        self.proven = 0  # bytes in these lines
        self._signed = self._believed = 0  # entries of this key: a signature holds for one place among them
        self._read = 0  # bytes that new_entries has read
        self._file: int | None = None
        self._synced = 0.0  # when all entries were on the disk

    def begin(self) -> None:
        """Make a new file beside what is there, which stays until the new one takes its place."""
        own_files.remove(self._new)
        self._file = own_files.opened(self._new, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL)

    def take_place(self) -> None:
        """Put the new file in the place of what is there, at once: with all that it has, also if the machine dies.

        Raises:
            OSError: somebody has put something else there meanwhile, or there is no room.
        """
        self.sync()
        if self.path.is_dir():
            own_files.remove(self.path)
        self._new.replace(self.path)
        self.demand_in_place()

    @property
    def _new(self) -> Path:
        return self.path.with_name(f"{self.path.name}.new")

    def sync(self) -> None:
        """Put all that any process has written into the file on the disk."""
        if self._file is not None:
            os.fsync(self._file)
            self._synced = time.monotonic()

    def take_key(self, key: str) -> None:
        """Sign what comes now with another key, and believe only what that one has signed."""
        self.key, self._signed, self._believed = key, 0, 0

    def demand_in_place(self) -> None:
        """Check that the file is still where a process will look for it.

        Raises:
            OSError: something else is there, or nothing.
        """
        assert self._file is not None
        if not os.path.samestat(os.fstat(self._file), self.path.lstat()):
            raise own_files.replaced(self.path)

    def write(self, kind: str, *, every: float = 0.0, **fields: Any) -> None:
        """Append one entry and make sure that it outlives this process.

        It outlives the machine too. With ``every``, this is sure only of entries that are older than so many seconds:
        a suite may have thousands of tests of a millisecond, and a disk takes ten times as long for each entry.

        Raises:
            OSError: there is no room for it, or the like.
        """
        text = json.dumps({"entry": kind, "time": time.time(), **fields}, default=str)
        line = f"{self._with_signature(text, self._signed)}\n".encode()
        # Kept open: a process that outlives its run goes on in that run's file, and not in the next one's.
        file = self._file if self._file is not None else self._open(os.O_CREAT)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":  # a line that was cut short
            line = b"\n" + line
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(file, rest) :]
        self._signed += 1
        if time.monotonic() - self._synced >= every:
            self.sync()

    def close(self) -> None:
        """Close the file; the next entry opens it again."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def new_entries(self) -> Iterator[Entry]:
        """Yield the entries since the last call; a last line that is not whole yet is left for the next call.

        Raises:
            OSError: the file was cut, or something else is in its place.
        """
        if self._file is None and not os.path.lexists(self.path):
            return
        file = self._file if self._file is not None else self._open(0)
        if os.fstat(file).st_size < self._read:
            raise own_files.replaced(self.path)
        with os.fdopen(os.dup(file), "rb") as reading:
            reading.seek(self._read)
            for line in reading:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                entry = self._entry(line.decode(errors="replace").rstrip("\n"))
                if self.proven + len(line) == self._read and (entry or {}).get("entry") != FORGED:
                    self.sum.update(line)
                    self.proven = self._read
                if entry is not None:
                    yield entry

    def _open(self, flags: int) -> int:
        self._file = own_files.opened(self.path, os.O_RDWR | os.O_APPEND | flags)
        return self._file

    def _entry(self, line: str) -> Entry | None:
        """Return the entry of a line; one that says ``forged`` if somebody else than the harness has written it there.

        What is not whole is None: it was cut short by a death or a full disk.
        """
        entry = parsed(line)
        if entry is None or not self.key:
            return entry
        text, _, _ = line.rpartition(_SIGNATURE)
        if not hmac.compare_digest(line.encode(), self._with_signature(f"{text}}}", self._believed).encode()):
            return {"entry": FORGED, "text": line}
        self._believed += 1
        self._signed = max(self._signed, self._believed)
        return entry

    def _with_signature(self, text: str, place: int) -> str:
        """Return a JSON object with its signature as the last of its keys; as it is where there is no key."""
        if not self.key:
            return text
        signature = hmac.new(self.key.encode(), f"{place} {text}".encode(), "sha256").hexdigest()[:16]
        return f'{text[:-1]}{_SIGNATURE}{signature}"}}'


def parsed(line: str) -> Entry | None:
    """Return the entry of a line; None if it is not whole."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "entry" in entry else None
