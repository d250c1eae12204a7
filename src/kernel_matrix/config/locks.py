"""The versions that a lock file pins."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.utils import canonicalize_name

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*===?\s*(?P<version>[^\s;\\]+)", re.MULTILINE)


def source_of(lock: Path) -> Path:
    """Return the file that a lock is resolved from, which need not exist."""
    return lock.with_suffix(".in")


def pins(lock: Path) -> dict[str, str]:
    """Return the pinned versions of a lock file by canonical name."""
    text = lock.read_text(encoding="utf-8")
    return {canonicalize_name(match["name"]): match["version"] for match in _PIN.finditer(text)}
