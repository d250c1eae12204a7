"""Open Parquet files of strangers in a process of its own, before this process does.

A footer with one wrong byte may end the process that reads it, take all memory, or take for ever. Here this
costs a process that holds nothing, and the file alone is lost.
"""

from __future__ import annotations

import atexit
import json
import select
import subprocess
import sys
from pathlib import Path
from threading import Lock

from kernel_matrix.store.validation import RefusedError

SECONDS = 60  # for one file: opening takes a millisecond
_BYTES = 4 * 2**30  # of addresses
_CODE = f"""
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({_BYTES}, {_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
from pyarrow.parquet import ParquetFile
for line in sys.stdin:
    path, reads_all = json.loads(line)
    try:
        file = ParquetFile(path)
        file.schema_arrow, file.metadata
        if reads_all:
            file.read()
    except Exception:
        pass  # the other process finds the same, and says it
    print("survived", flush=True)
"""


class _Reader:
    """The process that opens the files. It is started with the first file, and again after one that has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._lock = Lock()  # one file at a time
        atexit.register(self.end)

    def opens(self, path: Path, *, reads_all: bool) -> bool:
        """Return whether the process is still there when it has opened a file."""
        with self._lock:
            process = self._process = self._process or self._started()
            asks, answers = process.stdin, process.stdout
            assert asks is not None
            assert answers is not None
            try:
                print(json.dumps([str(path), reads_all]), file=asks, flush=True)
                survived = bool(select.select([answers], [], [], SECONDS)[0]) and bool(answers.readline())
            except BrokenPipeError:
                survived = False
        if not survived:
            self.end()
        return survived

    def _started(self) -> subprocess.Popen[str]:
        words = [sys.executable, "-I", "-c", _CODE]
        pipe = subprocess.PIPE
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)

    def end(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()


_READER = _Reader()


def check(path: Path, *, reads_all: bool) -> None:
    """Open a file in the other process; ``reads_all`` also reads its rows.

    Raises:
        RefusedError: the process has ended, or has not answered in time.
    """
    if not _READER.opens(path, reads_all=reads_all):
        raise RefusedError(f"{path.parent.name}/{path.name} ends the process that opens it, or holds it up")
