"""Find the distributions that lie in folders next to a project, by its own words: no index has them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from kernel_matrix.run.environments.uv_settings import toml_of


def document_of(folder: Path) -> dict[str, Any]:
    """Return the tables of a folder's pyproject.toml."""
    return toml_of(folder / "pyproject.toml")


def is_workspace(folder: Path) -> bool:
    """Return whether a folder is the root of a workspace of uv or of another tool."""
    tools = document_of(folder).get("tool", {})
    return isinstance(tools, dict) and any(isinstance(tool, dict) and "workspace" in tool for tool in tools.values())


def members_of(folder: Path) -> dict[str, Path]:
    """Return the members of the workspace of uv that a folder is the root of, by their names."""
    table = at(document_of(folder), "tool", "uv", "workspace")
    left = {path for pattern in texts(at(table, "exclude")) for path in _glob(folder, pattern)}
    found = [path for pattern in texts(at(table, "members")) for path in _glob(folder, pattern) if path not in left]
    named = {path: at(document_of(path), "project", "name") for path in dict.fromkeys(found)}
    return {canonicalize_name(name): path for path, name in named.items() if isinstance(name, str)}


def local_to(folder: Path) -> dict[str, Path]:
    """Return the folders of the distributions that ``tool.uv.sources`` takes from a folder, by their names.

    The sources of the workspace's root hold for its members too.
    """
    above = (path for path in folder.parents if folder.resolve() in map(Path.resolve, members_of(path).values()))
    roots = [folder, *list(above)[:1]]
    members = {name: path for root in roots for name, path in members_of(root).items()}
    found: dict[str, Path] = {}
    for root in reversed(roots):
        for name, table in _sources(root):
            if table.get("workspace") and canonicalize_name(name) in members:
                found[canonicalize_name(name)] = members[canonicalize_name(name)]
            elif isinstance(path := table.get("path"), str) and (root / path).is_dir():
                found[canonicalize_name(name)] = root / path
    return found


def at(document: object, *names: str) -> Any:
    """Return what stands in a table in a table; an empty table where it is not there."""
    for name in names:
        document = document.get(name, {}) if isinstance(document, dict) else {}
    return document


def texts(values: object) -> list[str]:
    """Return the texts of a list or of a table's values."""
    items = values.values() if isinstance(values, dict) else values if isinstance(values, list) else ()
    return [text for text in items if isinstance(text, str) and text]


def _sources(root: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the sources by name; where one depends on a marker, each of them."""
    sources = at(document_of(root), "tool", "uv", "sources")
    for name, value in sources.items() if isinstance(sources, dict) else ():
        for table in value if isinstance(value, list) else [value]:
            if isinstance(table, dict):
                yield name, table


def _glob(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(path for path in folder.glob(os.path.normpath(pattern)) if path.is_dir())
    except (ValueError, NotImplementedError):  # an absolute pattern, or none
        return []
