"""Keep what was found before, in one compressed file: the rows of each package with each release, by a key.

The key is of all that decides the rows: where it is the same nothing is installed, recorded or compiled.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.job import ahead
from kernel_matrix.tools.launches import inside
from kernel_matrix.tools.watch.names import Use
from kernel_matrix.tools.watch.rows import Ran

_FORM = 2


@dataclass
class Kept:
    """The file: what each package did with each release, the names that releases lack, and the news that were told."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)  # by package and release
    names: dict[str, list[str]] = field(default_factory=dict)  # by the key of the names and a release
    used: dict[str, dict[str, Use]] = field(default_factory=dict)  # by the key of a package
    told: list[str] = field(default_factory=list)

    def result(self, package: str, release: str, key: str) -> Ran | None:
        """Return what was found with the same key."""
        entry = self.results.get(f"{package} {release}")
        return Ran.of_json(entry["ran"]) if entry and entry["key"] == key else None

    def keep(self, package: str, release: str, key: str, ran: Ran) -> None:
        """Keep what was found."""
        self.results[f"{package} {release}"] = {"key": key, "ran": ran.as_json()}


def read(path: Path) -> Kept:
    """Return what is kept; nothing where there is no file.

    Raises:
        UserError: the file is another one.
    """
    if not path.exists():
        return Kept()
    try:
        content = json.loads(lzma.decompress(path.read_bytes()))
        if content.pop("form") != _FORM:
            return Kept()
        return Kept(**content)
    except (OSError, lzma.LZMAError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: this is not what `watch` has kept: {error}") from error


def write(path: Path, kept: Kept) -> None:
    """Write the file."""
    text = json.dumps({"form": _FORM, **vars(kept)}, sort_keys=True)
    write_atomically(path, lzma.compress(text.encode(), preset=6))


def key_of(parts: Mapping[str, Any], *, emulated: bool = False) -> str:
    """Return the key of what decides a result.

    Variables that begin with TRITON are parts of it, and so is our code that records and compiles, or emulates.
    """
    variables = {
        name: value for name, value in os.environ.items() if name.startswith("TRITON_") and "CACHE" not in name
    }
    text = json.dumps({**parts, "variables": variables, "code": _code(emulated=emulated)}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _code(*, emulated: bool) -> str:
    content = hashlib.sha256()
    others = {"card"} if emulated else {"card", "emulated"}  # folders of what a run without them imports nothing from
    for module in (inside.__name__, ahead.__name__, *(("gpu_emulators",) if emulated else ())):
        found = find_spec(module)
        for path in sorted(Path(found.origin).parent.rglob("*")) if found and found.origin else ():
            if path.suffix in (".py", ".toml", ".cc", ".h") and path.parent.name not in others:
                content.update(path.read_bytes())
    return content.hexdigest()
