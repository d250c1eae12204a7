"""A cache of compiled code, keyed by all that the code depends on.

Its folder is ``MHC_CACHE_DIR``: ``mhc`` in the user's folder for caches where that is not set, none where it is empty.
An entry is one file: a line of JSON (what is known of the code, and a checksum), then the code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Entry = tuple[bytes, dict[str, Any]]  # the code, and what is known of it: values that JSON has

_locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)  # one for each entry


def cached(key: Callable[[], Sequence[str]], make: Callable[[], Entry]) -> Entry:
    """Return the entry of ``key``, or what ``make`` returns; without a folder always the latter.

    ``key`` is called only where there is a cache. It returns all that the code depends on. A thread that needs what
    another one makes waits for it.
    """
    folder = _folder()
    if folder is None:
        return make()
    name = hashlib.sha256(json.dumps(list(key())).encode()).hexdigest()
    path = Path(folder, f"{name}.code")
    with _locks[name]:
        entry = _read(path)
        if entry is None:
            entry = make()
            _write(path, *entry)
    return entry


def _folder() -> Path | None:
    """Return the folder, or None where there is none."""
    named = os.environ.get("MHC_CACHE_DIR")
    if named is not None:
        return Path(named) if named else None
    caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return caches.expanduser() / "mhc"
    except RuntimeError:  # this user has no home
        return None


def _read(path: Path) -> Entry | None:
    """Return the entry in ``path``; None if it is absent or damaged."""
    try:
        head, data = path.read_bytes().split(b"\n", 1)
        fields = json.loads(head)
        if fields["sha256"] == _checksum(data, fields["facts"]):
            return data, dict(fields["facts"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _write(path: Path, data: bytes, facts: dict[str, Any]) -> None:
    """Write the entry to a file next to its place and move it there, so that no reader sees half of it.

    Nothing is kept where the folder takes no file: it is full, or for reading only.
    """
    head = json.dumps({"facts": facts, "sha256": _checksum(data, facts)})
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as folder:
            part = Path(folder, "part")
            part.write_bytes(head.encode() + b"\n" + data)
            part.replace(path)


def _checksum(data: bytes, facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode() + b"\n" + data).hexdigest()
