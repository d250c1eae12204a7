"""Hand a key and a sum to the comparing process through its standard input, which no kernel can read.

The key signs the journal. The sum belongs to the file that says what to do: a process that an earlier kernel has
left behind could write another file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from kernel_matrix.job import own_files

_MOST = 1024  # bytes
_handed: list[str] = []  # the key and the sum, until somebody takes them


def words(key: str, job: str) -> str:
    """Return the words for a process that gets this text as its job."""
    return f"{key} {hashlib.sha256(job.encode()).hexdigest()}"


def receive() -> None:
    """Take them from the standard input, before anything else of this process runs."""
    with contextlib.suppress(OSError):  # there is none
        _handed[:] = [] if os.isatty(0) else os.read(0, _MOST).decode().split()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def taken(file: Path) -> tuple[dict[str, Any], str]:
    """Return the job of a file, and the key of its journal; no key where a person has started this process.

    Raises:
        OSError: it is not the file that the harness has written.
    """
    content = own_files.content_of(file)
    key, total = _handed or ("", "")
    _handed.clear()
    if total and hashlib.sha256(content).hexdigest() != total:
        raise own_files.replaced(file)
    job: dict[str, Any] = json.loads(content)
    return job, key
