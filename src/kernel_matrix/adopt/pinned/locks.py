"""Read the locks of uv, pip, Poetry, PDM and Pipenv: tables with a name, a version and a marker each."""

from __future__ import annotations

import contextlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from kernel_matrix.adopt.pinned.pin import Pin, Reader, elsewhere, exact, of_archive

_REPOSITORIES = ("git", "hg", "svn", "bzr", "vcs")
_FOLDERS = ("editable", "directory", "virtual")
_MARKERS = ("resolution-markers", "markers", "marker")
_PYTHONS = ("requires-python", "requires_python", "python-versions")


def read(path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of a lock.

    Raises:
        ValueError: it is no lock.
    """
    text = path.read_text(encoding="utf-8-sig")
    document = json.loads(text) if path.name.lower() == "pipfile.lock" else tomllib.loads(text)
    if not isinstance(document, dict):
        raise ValueError("it has no tables")  # noqa: TRY004 - the file is wrong, not the caller
    tables = (
        [*_of_pipenv(document)] if path.name == "Pipfile.lock" else document.get("package", document.get("packages"))
    )
    reader.note_python(path, _pythons(document))
    extras, groups = (frozenset(_texts(document.get(key))) for key in ("extras", "dependency-groups"))
    groups |= frozenset(_texts(document.get("default-groups")))
    yield from of_tables(tables, path, reader, extras=extras, dependency_groups=groups)


def of_tables(tables: object, path: Path, reader: Reader, **sets: frozenset[str]) -> Iterator[Pin]:
    """Yield the pins of a lock's tables, of which several may have one name."""
    named: dict[str, list[Mapping[str, Any]]] = {}
    for table in tables if isinstance(tables, list) else ():
        if isinstance(table, dict) and isinstance(table.get("name"), str):
            named.setdefault(table["name"], []).append(table)
    for name, found in named.items():
        here = [table for table in found if _is_for(table, reader, **sets)]
        with contextlib.suppress(ValueError):  # neither a name nor a version that an index could have
            yield _pin(name, here or found, path, reader)


def _pin(name: str, tables: list[Mapping[str, Any]], path: Path, reader: Reader) -> Pin:
    """Return the pin of one distribution; of several versions, the newest.

    Raises:
        ValueError: the lock has neither a version of it nor a place.
    """
    file, versions = reader.named(path), {version for table in tables if (version := _version(table))}
    if not versions:
        return elsewhere(name, next(filter(None, map(_place, tables)), ""), file)
    newest = max(versions)
    if len(versions) > 1:
        listed = ", ".join(map(str, sorted(versions)))
        reader.notes.append(f"{file} has {name} {listed}, and none is for this environment alone: {newest} is taken")
    return exact(name, str(newest), file)


def _version(table: Mapping[str, Any]) -> Version | None:
    """Return the version without its local part; None of what comes from a place."""
    with contextlib.suppress(InvalidVersion):
        if not _place(table) and isinstance(version := table.get("version"), str):
            return Version(Version(version.lstrip("=")).public)
    return None


def _place(table: Mapping[str, Any]) -> str:
    """Return the repository or folder that a distribution comes from; nothing for an index, or for an archive."""
    source = _table(table, "source")
    for one in (table, source):
        for key in (*_REPOSITORIES, *_FOLDERS):
            if value := one.get(key):  # an address; a table with it; or True, where the folder stands next to it
                inside = value if isinstance(value, dict) else {"url": value, "path": one.get("path")}
                texts = [*_texts(inside.get("url")), *_texts(inside.get("path"))]
                return f"{'' if key in _REPOSITORIES else 'the folder '}{texts[0] if texts else '?'}"
    for path in _texts(table.get("path")):
        return "" if of_archive(path) else f"the folder {path}"
    kind, address = source.get("type"), f"{source.get('url', '')}"  # Poetry's
    return address if kind in _REPOSITORIES else f"the folder {address}" if kind == "directory" else ""


def _is_for(table: Mapping[str, Any], reader: Reader, **sets: frozenset[str]) -> bool:
    """Return whether one of the markers of a table holds; uv has a list of them, and Poetry one for each group."""
    pythons = [text for key in _PYTHONS for text in _texts(table.get(key))]
    markers = [text for key in _MARKERS for text in _texts(table.get(key))]
    return any(reader.holds(text, **sets) for text in markers or [""]) and all(map(reader.fits, pythons))


def _texts(value: Any) -> list[str]:
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return [text for text in values if isinstance(text, str)]


def _pythons(document: Mapping[str, Any]) -> str:
    """Return the Pythons that a lock is for, as a specifier; nothing if it does not say."""
    for version in _texts(_table(_table(document, "_meta"), "requires").get("python_version")):  # Pipenv's
        return f"=={version}.*"
    tables = (document, _table(document, "metadata"))
    return next((text for one in tables for key in _PYTHONS for text in _texts(one.get(key))), "")


def _of_pipenv(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for group in document:
        if group != "_meta":
            tables = _table(document, group)
            yield from ({**_table(tables, name), "name": name} for name in tables)


def _table(document: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = document.get(key)
    return value if isinstance(value, dict) else {}
