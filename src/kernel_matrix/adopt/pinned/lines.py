"""Read requirements and constraints, one a line, with the files that they name by -r and -c."""

from __future__ import annotations

import codecs
import configparser
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from kernel_matrix.adopt.pinned.pin import (
    Pin,
    Reader,
    elsewhere,
    exact,
    is_aside,
    of_archive,
    of_specifier,
    reason_of,
    shown,
)

_ENCODINGS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16", codecs.BOM_UTF8: "utf-8-sig"}
_OTHER_FILE = re.compile(r"(?:-r|-c|--requirement|--constraint)\s*=?\s*(\S.*)")
_EDITABLE = re.compile(r"(?:-e|--editable)\s*=?\s*(?=\S)")
_OPTIONS = re.compile(r"\s--?[A-Za-z].*")
_MADE_FOR = re.compile(
    r"pip-compile with python (\d+\.\d+)|uv pip compile .*(?:--python-version|--python|-p)[ =](\d+\.\d+)", re.IGNORECASE
)


def read(path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of a file and of those that it names.

    Raises:
        OSError: it cannot be read.
    """
    if path.resolve() in reader.seen:
        return
    text = _decoded(path.read_bytes())
    reader.seen.add(path.resolve())
    for python in [one for match in _MADE_FOR.findall(text) for one in match if one][:1]:
        reader.note_python(path, f"=={python}.*")
    yield from of_lines(_logical(text), path, reader)


def of_lines(lines: Iterable[str], path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of lines in pip's form, which stand in a file; what they name lies in its folder."""
    odd = []
    for line in lines:
        if match := _OTHER_FILE.fullmatch(line):
            yield from _other(match[1].strip("'\""), path, reader)
        elif _EDITABLE.match(line) or not line.startswith("-"):
            try:
                yield from _one(_EDITABLE.sub("", line), reader.named(path), reader)
            except ValueError:
                odd.append(shown(line))
    if odd:
        more = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
        reader.notes.append(f"{reader.named(path)}: '{odd[0]}' is no requirement{more}")


def requirements_of(path: Path, seen: frozenset[Path] = frozenset()) -> Iterator[str]:
    """Yield the requirements of a file and of those that it names, also those without a version.

    Raises:
        OSError: it cannot be read.
    """
    yield from of_text(_decoded(path.read_bytes()), path, seen)


def of_text(text: str, path: Path, seen: frozenset[Path] = frozenset()) -> Iterator[str]:
    """Yield the requirements of a text in pip's form, which stands in a file, and of the files that it names."""
    for line in _logical(text):
        if match := _OTHER_FILE.fullmatch(line):
            other = path.parent / match[1].strip("'\"")
            if other.is_file() and other.resolve() not in seen:
                yield from requirements_of(other, seen | {path.resolve(), other.resolve()})
        elif _EDITABLE.match(line) or not line.startswith("-"):
            yield _OPTIONS.sub("", _EDITABLE.sub("", line))


def _other(name: str, path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of a file that another names."""
    reason = "it is not on this machine"
    try:
        if "://" not in name:
            yield from read(path.parent / name, reader)
            return
    except (OSError, ValueError) as error:
        reason = reason_of(error)
    reader.notes.append(f"{reader.named(path)} names {shown(name)}, which cannot be read: {reason}")


def _one(line: str, file: str, reader: Reader) -> Iterator[Pin]:
    """Yield the pin of one requirement, if it holds here and wants certain versions.

    Raises:
        ValueError: it is no requirement.
    """
    line = _OPTIONS.sub("", line)
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        place, _, marker = line.partition(" ;")
        if reader.holds(marker.strip()):
            yield from _of_place("", place.strip(), file)
        return
    if not reader.holds(str(requirement.marker or "")):
        return
    if requirement.url:
        yield from _of_place(requirement.name, requirement.url, file)
    elif requirement.specifier:
        yield of_specifier(requirement.name, requirement.specifier, file)


def _of_place(name: str, place: str, file: str) -> Iterator[Pin]:
    """Yield the pin of an archive, a repository or a folder; of a folder without a name, none.

    Raises:
        ValueError: it is none of these.
    """
    egg = re.search(r"#(?:.*&)?egg=([\w.-]+)", place)
    if archive := of_archive(place):
        yield exact(name or archive[0], archive[1], file)
    elif name or egg:
        yield elsewhere(name or (egg[1] if egg else ""), place.partition("#")[0], file)
    elif not re.match(r"[./~]|[A-Za-z][\w+.-]*:", place):
        raise ValueError(place)


def of_setup_cfg(path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of setup.cfg: of what the package needs, and of its extras.

    Raises:
        ValueError: it cannot be parsed.
    """
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(_decoded(path.read_bytes()))
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    extras = parser["options.extras_require"].items() if parser.has_section("options.extras_require") else ()
    for value in (
        parser.get("options", "install_requires", fallback=""),
        *(value for name, value in extras if not is_aside(name)),
    ):
        lines = [line for line in _logical(value) if not line.startswith("file:")]
        yield from of_lines(lines, path, reader)


def of_pyproject(path: Path, reader: Reader) -> Iterator[Pin]:
    """Yield the pins of pyproject.toml: of ``tool.uv``, which hold for whatever is resolved there, and of its groups.

    Groups and extras that pin a distribution to several versions are alternatives: none of them is the repository's.

    Raises:
        ValueError: it cannot be parsed.
    """
    document: Any = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    uv = _table(document, "tool", "uv")
    for key in ("override-dependencies", "constraint-dependencies", "dev-dependencies"):
        yield from of_lines(_texts(uv.get(key)), path, reader)
    groups = [_table(document, "dependency-groups"), _table(document, "project", "optional-dependencies")]
    lists = [values for table in groups for name, values in table.items() if not is_aside(name)]
    texts = [text for values in lists for text in _texts(values)]
    pins = list(dict.fromkeys(pin for pin in of_lines(texts, path, reader) if pin.version))
    times = Counter(pin.name for pin in pins)
    yield from (pin for pin in pins if times[pin.name] == 1)


def _table(document: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def _texts(values: object) -> list[str]:
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else []


def _decoded(content: bytes) -> str:
    encoding = next((name for mark, name in _ENCODINGS.items() if content.startswith(mark)), "utf-8")
    return content.decode(encoding, errors="replace")


def _logical(text: str) -> Iterator[str]:
    """Yield the lines without comments; one that ends with a backslash goes on in the next."""
    begun = ""
    for physical in [*text.splitlines(), ""]:
        line = re.sub(r"(^|\s)#.*", "", physical).strip()
        if line.endswith("\\"):
            begun += f"{line[:-1].strip()} "
            continue
        if whole := f"{begun}{line}".strip():
            yield whole
        begun = ""
