"""Read every list of requirements of a repository: extras, groups, tools, environments, files of lines, and its CI.

A list is known by its key (``dependencies``, ``dev-dependencies``, ``deps``, ``test-requires``, ``extras_require``), in
whichever table it stands. So a tool that nobody thought of is read as those that are known.
"""

from __future__ import annotations

import ast
import configparser
import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from kernel_matrix.adopt import ci_lists, setup_script
from kernel_matrix.adopt.pinned import conda, lines
from kernel_matrix.adopt.pinned.pin import is_aside
from kernel_matrix.adopt.pinned.repository import lists_in
from kernel_matrix.base.syntax import parsed
from kernel_matrix.run.environments.uv_settings import toml_of

_KEY = re.compile(r"(.*[-_.])?(dependencies|dependency-groups|deps|requires?|requirements)", re.IGNORECASE)
_OF_PIPENV = {"packages": "dependencies", "dev-packages": "dev-dependencies"}
_FACTOR = re.compile(r"^[\w{},.!-]+:\s+")  # of tox: py311,gpu: cupy
_EGG = re.compile(r"[\w+.-]+://.*#(?:.*&)?egg=([\w.-]+)")
_SHORT = re.compile(r"([\^~])\s*(\d[\w.]*)")  # of Poetry: ^1.2 and ~1.2
_RELEASES_OF_TILDE = 2


def lists(root: Path, document: Mapping[str, Any], extras: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Yield each requirement of a repository, and where it stands. Nothing is run; what cannot be read is left out.

    ``document`` is its pyproject.toml, ``extras`` are those of its metadata.
    """
    pipenv = toml_of(root / "Pipfile")
    tables = {
        "pyproject.toml": document,
        "metadata": {"dependencies": extras},
        "setup.py": setup_script.words_of(root / "setup.py") or {},
        "setup.cfg": _sections(root / "setup.cfg"),
        "tox.ini": _sections(root / "tox.ini"),
        "noxfile.py": {"requirements": _installed_by(root / "noxfile.py")},
        "Pipfile": {_OF_PIPENV[key]: table for key, table in pipenv.items() if key in _OF_PIPENV},
    }
    for name, table in tables.items():
        for text, place in _of_tables(table):
            for line in lines.of_text(_FACTOR.sub("", text), root / name):
                yield from _checked(line, f"{name}, {place}")
    for path, read in lists_in(root):
        with contextlib.suppress(OSError, ValueError, RecursionError):
            origin = Path(os.path.relpath(path, root)).as_posix()
            for line in conda.requirements_of(path) if read is conda.read else lines.requirements_of(path):
                yield from _checked(line, origin)
    for line, origin in ci_lists.requirements_in(root):
        yield from _checked(line, origin)


def _checked(line: str, origin: str) -> Iterator[tuple[str, str]]:
    """Yield a line if it names a distribution; an address that names one in its end is written as a requirement.

    The versions of a list that is for something else than tests are left out.
    """
    egg = _EGG.fullmatch(line)
    with contextlib.suppress(InvalidRequirement):
        text = f"{egg[1]} @ {line.partition('#')[0]}" if egg else line
        requirement = Requirement(text)
        if is_aside(origin):
            requirement.specifier = SpecifierSet()
        yield str(requirement) if is_aside(origin) else text, origin


def _of_tables(document: object, *above: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of all lists in a table and in its tables, with the keys that lead there."""
    for key, value in document.items() if isinstance(document, Mapping) else ():
        if _KEY.fullmatch(str(key)):
            yield from _of_list(value, *above, str(key))
        for table in value if isinstance(value, list) else [value]:
            yield from _of_tables(table, *above, str(key))


def _of_list(value: object, *keys: str) -> Iterator[tuple[str, str]]:
    """Yield the texts of a list, of a table of lists, or of a table of names with their versions."""
    if isinstance(value, (list, tuple)):
        yield from ((text, ".".join(keys)) for text in value if isinstance(text, str))
    for name, entry in value.items() if isinstance(value, Mapping) else ():
        ones = entry if isinstance(entry, (list, tuple)) else [_with_version(str(name), entry)]
        tables = (_with_version(str(name), one) for one in ones if isinstance(one, Mapping) and "version" in one)
        yield from _of_list([*ones, *tables], *keys, *([str(name)] if ones is entry else []))


def _with_version(name: str, entry: object) -> str | None:
    """Return the requirement of a name with a version or a table, as Poetry, Pipenv and pixi have them.

    None of what lies in a folder.
    """
    table = entry if isinstance(entry, Mapping) else {"version": entry}
    if {"path", "file", "workspace"} & {*table}:
        return None
    extras = table.get("extras")
    named = f"{name}[{','.join(map(str, extras))}]" if isinstance(extras, list) and extras else name
    if isinstance(table.get("git"), str):
        at = next((f"@{table[key]}" for key in ("rev", "tag", "branch", "ref") if key in table), "")
        return f"{named} @ git+{table['git']}{at}"
    versions = ",".join(map(_specifier, str(table.get("version", "*")).split(",")))
    try:
        return str(Requirement(f"{named}{versions}"))
    except InvalidRequirement:
        return named


def _specifier(version: str) -> str:
    """Return a version as a specifier: ^1.2 is what begins with 1, ~1.2 what begins with 1.2, and neither is older."""
    version = version.strip()
    if match := _SHORT.fullmatch(version):
        parts = match[2].split(".")
        nonzero = next((place for place, part in enumerate(parts) if part.strip("0")), len(parts) - 1)
        kept = nonzero + 1 if match[1] == "^" else _RELEASES_OF_TILDE
        return f">={match[2]},=={'.'.join(parts[:kept])}.*"
    return "" if version == "*" else f"=={version}" if version[:1].isdigit() else version


def _sections(path: Path) -> dict[str, dict[str, list[str]]]:
    """Return the sections of a file of settings, each value as its lines."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    with contextlib.suppress(configparser.Error, ValueError, OSError):
        parser.read(path, encoding="utf-8")
    return {name: {key: (value or "").splitlines() for key, value in parser[name].items()} for name in parser}


def _installed_by(path: Path) -> list[str]:
    """Return what the sessions of nox install: the texts in calls of ``install``."""
    try:
        tree = parsed(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    return [
        one.value
        for call in calls
        if call.func.attr == "install"  # type: ignore[attr-defined]
        for argument in call.args
        for one in ast.walk(argument)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
