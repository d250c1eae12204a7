"""A cache of compiled code in the folder ``MHC_CACHE_DIR``, keyed by all that the code depends on.

An entry is one file: a line of JSON (what is known of the code, and a checksum), then the code.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Entry = tuple[bytes, dict[str, Any]]  # the code, and what is known of it: values that JSON has


def cached(key: Callable[[], Sequence[str]], make: Callable[[], Entry]) -> Entry:
    """Return the entry of ``key``, or what ``make`` returns; without ``MHC_CACHE_DIR`` always the latter.

    ``key`` is called only where there is a cache. It returns all that the code depends on.
    """
    folder = os.environ.get("MHC_CACHE_DIR")
    if not folder:
        return make()
    name = hashlib.sha256(json.dumps(list(key())).encode()).hexdigest()
    path = Path(folder, f"{name}.code")
    entry = _read(path)
    if entry is None:
        entry = make()
        _write(path, *entry)
    return entry


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
    """Write the entry to a file beside its place and move it there, so that no reader sees half of it.

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
