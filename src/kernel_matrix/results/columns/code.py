"""A digest of the harness's own code: what a database keeps is of no use to other code."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

_PACKAGE = Path(__file__).parents[2]


@cache
def digest_of_code() -> str:
    """Return a digest of all modules."""
    digest = sha256()
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{path.relative_to(_PACKAGE)} {sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
