"""Open Parquet files of strangers in a process of its own, before this process does.

A footer with one wrong byte may end the process that reads it, take all memory, or take for ever. Here this
costs a process that holds nothing, and the file alone is lost.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock

import kernel_matrix
from kernel_matrix.base.errors import UserError
from kernel_matrix.store.validation import Bounds

Fault = tuple[str, int]  # why a file is not taken, empty for a good one; and the version of its table
SECONDS = 60  # for one file: opening takes a millisecond
_BYTES = 4 * 2**30  # of addresses
_READY = b"ready\n"
# Its argument has the places of modules that the process which starts it has: with -I, Python itself does not look in
# PYTHONPATH. NumPy reserves addresses for each thread, and a large machine has many.
_CODE = f"""
import json, os, resource, sys
sys.path += json.loads(sys.argv[1])
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from pathlib import Path
from kernel_matrix.store.columns import fault_of
from kernel_matrix.store.validation import Bounds
resource.setrlimit(resource.RLIMIT_AS, ({_BYTES}, {_BYTES}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
print("ready", flush=True)
for line in sys.stdin:
    bounds, files = json.loads(line)
    for table, path in files:
        fault = fault_of(table, Path(path), Bounds(**bounds), reads_all=table == "samples")  # DuckDB reads the others
        print(json.dumps(fault), flush=True)
"""


class _Reader:
    """The process that opens the files. It is started with the first file, and again after one that has ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = Lock()  # one question at a time
        atexit.register(self.end)

    def faults(self, files: Sequence[tuple[str, Path]], bounds: Bounds) -> list[Fault]:
        """Return the faults of files, up to the one that has ended the process or held it up."""
        question = json.dumps([asdict(bounds), [(table, str(path)) for table, path in files]]) + "\n"
        with self._lock:
            process = self._process = self._process or self._started()
            found = [*_answers(process, question.encode(), len(files))]
        if len(found) < len(files):
            self.end()
        return found

    def _started(self) -> subprocess.Popen[bytes]:
        words, pipe = _command(), subprocess.PIPE
        process = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert process.stdout is not None
        if process.stdout.readline() != _READY:  # the time of a file begins when all is imported
            process.communicate()
            raise UserError(f"Tables are opened in a process of their own, and it does not start: {_why_not(words)}")
        return process

    def end(self) -> None:
        """End the process."""
        with self._lock:
            process, self._process = self._process, None
        if process:
            process.kill()
            process.communicate()


def _command() -> list[str]:
    """Return the command of the process. What is not installed in its Python it finds where this process does."""
    places = [*filter(None, sys.path), str(Path(kernel_matrix.__file__).parents[1])]
    return [sys.executable, "-I", "-c", _CODE, json.dumps(places)]


def _why_not(words: Sequence[str]) -> str:
    """Return the last line that a process printed which did not start."""
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return next(iter(reversed(ended.stderr.strip().splitlines())), f"it ends with status {ended.returncode}")


def _answers(process: subprocess.Popen[bytes], question: bytes, number: int) -> Iterator[Fault]:
    """Ask a process, and yield its answers, a line each: fewer than their number if it ends or is too slow."""
    asks, answers = process.stdin, process.stdout
    assert asks is not None
    assert answers is not None
    rest = b""
    try:
        asks.write(question)
        asks.flush()
        while number and select.select([answers], [], [], SECONDS)[0] and (read := os.read(answers.fileno(), 2**16)):
            *lines, rest = (rest + read).split(b"\n")
            number -= len(lines)
            yield from ((fault, version) for fault, version in map(json.loads, lines))
    except BrokenPipeError:
        return


_READER = _Reader()


def faults(files: Sequence[tuple[str, Path]], bounds: Bounds) -> list[Fault]:
    """Return what is wrong with the footer of each file, given with its table; empty for a good one; and its version.

    The rows of samples are read too. A file is at fault if the other process ends with it, or does not answer in time.
    """
    found: list[Fault] = []
    while len(found) < len(files):
        found += _READER.faults(files[len(found) :], bounds)
        if len(found) < len(files):
            path = files[len(found)][1]
            found.append((f"{path.parent.name}/{path.name} ends the process that opens it, or holds it up", 0))
    return found
