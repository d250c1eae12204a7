"""Keep results by the content that they were made from: the same kernel, constants, options, target and compiler."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from kernel_matrix.job import ahead

from .unit import Source

_KEPT_STAGES = ("", "lower", "compile")  # how long a compiler takes or when it crashes depends on the machine
_HERE, _AHEAD = Path(__file__).parent, Path(ahead.__file__).parent
_CODE = (_HERE / "compiling.py", _HERE / "logs.py", *sorted(_HERE.glob("*/source.py")), *sorted(_AHEAD.glob("*.py")))


def _code() -> str:
    """Return the digest of what makes results here."""
    content = hashlib.sha256()
    for path in _CODE:
        content.update(path.read_bytes())
    return content.hexdigest()


class Cache:
    """A folder with one file for each result."""

    def __init__(self, folder: Path) -> None:
        """Make the folder if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.salt = _code()

    def key(self, source: Source) -> str:
        """Return the name of the result of a source; empty if nobody can say what it is made of."""
        key = source.key
        return hashlib.sha256(f"{self.salt} {key}".encode()).hexdigest() if key else ""

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the result; None if it is not there or cannot be read."""
        try:
            return dict(json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    def put(self, key: str, result: dict[str, Any]) -> None:
        """Keep a result, unless another run could end otherwise."""
        if key and result["stage"] in _KEPT_STAGES:
            part = self.folder / f"{key}.part"
            part.write_text(json.dumps(result), encoding="utf-8")
            part.replace(self.folder / f"{key}.json")
