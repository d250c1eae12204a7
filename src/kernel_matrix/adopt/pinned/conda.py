"""Read the environments of conda: its own requirements, and those that pip installs there; and locks of these."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.adopt.pinned.lines import of_lines, of_text
from kernel_matrix.adopt.pinned.locks import of_tables
from kernel_matrix.adopt.pinned.pin import Pin, Reader, exact, of_specifier

_NAMES = {"pytorch": "torch", "pytorch-cpu": "torch", "pytorch-gpu": "torch"}  # others have the name of their index
_NAME = re.compile(r"(?:[\w./:-]+::)?([\w.-]+)")
_LINE = re.compile(r"(?:[\w./:-]+::)?(?P<name>[\w.-]+)\s*(?P<versions>[^\w.-].*)")
_BUILD = re.compile(r"=?\s*(\d[^\s=*,|]*)\s*=\s*[^\s=]+")  # numpy=1.26.4=py311h64a7726_0
_PREFIX = re.compile(r"=?\s*(\d[\d.]*\d|\d)(\.\*)?")  # conda takes =1.26 for 1.26.*
_ADDRESS = re.compile(r"(?P<platform>[\w-]+)/(?P<name>[^/]+)-(?P<version>[^/-]+)-[^/-]+\.(conda|tar\.bz2)$")
_PLATFORMS = (None, "noarch", "linux-64")
_WHOLE = 3  # parts of a version that stands for itself


def read(path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of an environment.

    Raises:
        ValueError: it is no YAML.
    """
    lines = _document(path).get("dependencies")
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, str):
            with contextlib.suppress(ValueError):  # a version or an alternative that only conda has
                yield from _of_line(line.strip(), reader.named(path))
        elif isinstance(line, dict) and isinstance(line.get("pip"), list):
            yield from of_lines([text for text in line["pip"] if isinstance(text, str)], path, reader)


def requirements_of(path: Path) -> Iterator[str]:
    """Yield the names of an environment's requirements, and those of pip as they stand there.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no YAML.
    """
    lines = _document(path).get("dependencies")
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, str):
            yield from name_of(line.strip())
        elif isinstance(line, dict) and isinstance(line.get("pip"), list):
            yield from of_text("\n".join(text for text in line["pip"] if isinstance(text, str)), path)


def name_of(line: str) -> Iterator[str]:
    """Yield the name that an index has for a requirement of conda."""
    if match := _NAME.match(line):
        yield _NAMES.get(match[1].lower(), match[1])


def read_lock(path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of conda-lock.yml or pixi.lock.

    Raises:
        ValueError: it is no YAML.
    """
    document = _document(path)
    entries = document.get("package", document.get("packages"))
    tables = [_table(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    yield from of_tables([table for table in tables if table.get("platform") in _PLATFORMS], path, reader)


def _document(path: Path) -> dict[str, Any]:
    try:
        document = YAML(typ="safe").load(path.read_text(encoding="utf-8-sig"))
    except YAMLError as error:
        raise ValueError(str(error)) from None
    return document if isinstance(document, dict) else {}


def _table(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with name, version and platform, which pixi has in the address: linux-64/numpy-2.2.6-0.conda."""
    table, address = dict(entry), entry.get("conda")
    if isinstance(address, str) and (match := _ADDRESS.search(address)):
        table = {"platform": match["platform"], "name": match["name"], "version": match["version"], **entry}
    elif "pypi" in entry and isinstance(entry["pypi"], str) and "://" not in entry["pypi"]:
        table["directory"] = entry["pypi"]
    table["name"] = _NAMES.get(str(table.get("name")).lower(), table.get("name"))
    return table


def _of_line(line: str, file: str) -> Iterator[Pin]:
    """Yield the pin of one requirement of conda.

    Raises:
        ValueError: no index has such a version.
    """
    if (match := _LINE.fullmatch(line)) and match["name"] != "python":
        name, versions = _NAMES.get(match["name"].lower(), match["name"]), match["versions"].strip()
        if build := _BUILD.fullmatch(versions):
            yield exact(name, build[1], file)
        elif one := _PREFIX.fullmatch(versions):
            whole = not one[2] and one[1].count(".") + 1 >= _WHOLE
            yield exact(name, one[1], file) if whole else of_specifier(name, SpecifierSet(f"=={one[1]}.*"), file)
        else:
            yield of_specifier(name, SpecifierSet(versions), file)
