"""Take from a project's own configuration of uv where distributions are, and nothing else.

What it says of versions is for the project's own lock. It would change silently what is installed from another one.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_PLACES = ("index-url", "extra-index-url", "find-links")
_ACCESS = ("index-strategy", "keyring-provider", "allow-insecure-host", "native-tls", "system-certs")


def of_indexes(folder: Path) -> str:
    """Return as the text of uv.toml what the nearest configuration in or above a folder says of indexes."""
    for one in (folder, *folder.parents):
        if table := toml_of(one / "uv.toml") or _own(toml_of(one / "pyproject.toml")):
            return "".join(f"{line}\n" for line in _lines(table, one))
    return ""


def toml_of(path: Path) -> dict[str, Any]:
    """Return the tables of a file; none where it is not there or cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}


def _own(document: Mapping[str, Any]) -> dict[str, Any]:
    tool = document.get("tool")
    table = tool.get("uv") if isinstance(tool, dict) else None
    return table if isinstance(table, dict) else {}


def _lines(table: Mapping[str, Any], folder: Path) -> Iterator[str]:
    yield from (f"{name} = {json.dumps(table[name])}" for name in _ACCESS if name in table)
    for name in _PLACES:
        if isinstance(value := table.get(name), str | list):
            yield f"{name} = {json.dumps(_absolute(value, folder))}"
    indexes = table.get("index")
    for index in indexes if isinstance(indexes, list) else ():
        if isinstance(index, dict) and not index.get("explicit"):  # one that is explicit serves the project's sources
            yield "[[index]]"
            for name, value in index.items():
                if isinstance(value, str | bool):
                    yield f"{name} = {json.dumps(_absolute(value, folder) if name == 'url' else value)}"


def _absolute(value: Any, folder: Path) -> Any:
    """Return an address that holds in another folder too."""
    if isinstance(value, list):
        return [_absolute(one, folder) for one in value]
    return str(folder / value) if isinstance(value, str) and "://" not in value else value
