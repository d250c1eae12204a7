"""Read what a project says of itself: its name, its Python, what it depends on, and where its tests are.

Where no file says what it depends on, PKG-INFO does, or a build of its source archive by uv.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from kernel_matrix.base.errors import UserError
from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError

# The names that people give to what the tests need; the first of them that there is counts.
_TEST_NAMES = ("test", "tests", "testing", "dev", "develop", "development")
_FILES = ("pyproject.toml", "setup.cfg", "setup.py")


@dataclass(frozen=True)
class ProjectFile:
    """A project by its own words; empty where it says nothing."""

    name: str = ""
    python: str = ""
    needs: tuple[tuple[str, str], ...] = ()  # a requirement, and where it stands
    test_folders: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # a sentence for each thing that could not be read


def read(root: Path) -> ProjectFile:
    """Read the files of a project; a folder without any is a project that says nothing.

    Raises:
        UserError: pyproject.toml cannot be read.
    """
    document = _pyproject(root)
    project = document.get("project", {})
    metadata, note = _metadata(root, project)
    needs = [
        *((text, "pyproject.toml, dependencies") for text in project.get("dependencies", ())),
        *((text, metadata.origin) for text in metadata.needs),
        *_test_needs(document, project, metadata),
    ]
    return ProjectFile(
        str(project.get("name") or metadata.name),
        str(project.get("requires-python") or metadata.python),
        tuple((text, origin) for text, origin in needs if _is_requirement(text)),
        tuple(_test_folders(root, document)),
        (note,) if note else (),
    )


def _pyproject(root: Path) -> dict[str, Any]:
    path = root / "pyproject.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}. It says what the package needs.") from None
    except ValueError as error:
        raise UserError(f"{path}: this is not TOML: {str(error).splitlines()[0]}. Correct it first.") from None


def _metadata(root: Path, project: Mapping[str, Any]) -> tuple[Metadata, str]:
    """Return what the build of the package says, where its files do not; and a sentence if it cannot be built."""
    dynamic = set(project.get("dynamic", ())) & {"dependencies", "optional-dependencies"}
    if not any((root / name).is_file() for name in _FILES) or (project and not dynamic):
        return Metadata(), ""
    return metadata_of(root)


def _test_needs(
    document: Mapping[str, Any], project: Mapping[str, Any], metadata: Metadata
) -> Iterable[tuple[str, str]]:
    """Return what the tests need: of an extra, and of a dependency group."""
    extras = {**project.get("optional-dependencies", {}), **metadata.extras}
    groups = document.get("dependency-groups", {})
    for kind, tables in (("extra", extras), ("group", groups)):
        name = next((name for name in _TEST_NAMES if tables.get(name)), None)
        if name is not None:
            texts = _group(groups, name) if kind == "group" else tables[name]
            yield from ((text, f"the {kind} '{name}'") for text in texts)


def _group(groups: Mapping[str, Any], name: str, above: Sequence[str] = ()) -> Iterable[str]:
    """Yield the requirements of a dependency group, and of those that it includes."""
    for entry in groups.get(name, ()) if name not in above else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict):
            yield from _group(groups, str(entry.get("include-group", "")), (*above, name))


def _is_requirement(text: object) -> bool:
    try:
        Requirement(str(text))
    except InvalidRequirement:
        return False
    return True


def _test_folders(root: Path, document: Mapping[str, Any]) -> Iterable[str]:
    """Yield the folders that pytest is configured with."""
    options = document.get("tool", {}).get("pytest", {})
    options = {**options.get("ini_options", {}), **{key: value for key, value in options.items() if key == "testpaths"}}
    paths = options.get("testpaths", [])
    texts = re.split(r"\s+", paths) if isinstance(paths, str) else list(paths)
    for name in ("pytest.toml", ".pytest.toml"):
        texts += _folders_of(root / name)
    for name, section in (("pytest.ini", "pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest")):
        parser = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parser.read(root / name, encoding="utf-8")
        except (configparser.Error, ValueError):
            continue
        texts += parser.get(section, "testpaths", fallback="").split()
    yield from (text.strip("/").removeprefix("./") or "." for text in texts if isinstance(text, str) and text)


def _folders_of(path: Path) -> list[Any]:
    """Return the folders that a pytest.toml names; none where there is no such file, or pytest could not read it."""
    try:
        folders = tomllib.loads(path.read_text(encoding="utf-8")).get("pytest", {}).get("testpaths", [])
    except (OSError, ValueError, AttributeError):
        return []
    return folders.split() if isinstance(folders, str) else [*folders] if isinstance(folders, list) else []


_FILE = "PKG-INFO"
# What is not copied for a build: large, or none of the source.
_LEFT = (".*", "__pycache__", "build", "dist", "docs", "node_modules", "*.egg-info", "benchmark*", "data", "*.so")
_VERSION = {"SETUPTOOLS_SCM_PRETEND_VERSION": "0", "HATCH_VCS_PRETEND_VERSION": "0", "PDM_BUILD_SCM_VERSION": "0"}


@dataclass(frozen=True)
class Metadata:
    """The metadata of a package: its name, its Python, its requirements, and those of its extras."""

    name: str = ""
    python: str = ""
    needs: tuple[str, ...] = ()
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    origin: str = ""


def metadata_of(root: Path) -> tuple[Metadata, str]:
    """Return the metadata of the package in a folder; and a sentence if there is none."""
    path = root / _FILE  # in an unpacked source archive
    if path.is_file():
        return _parsed(path.read_text(encoding="utf-8", errors="replace"), _FILE), ""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "source")
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns(*_LEFT), symlinks=True, ignore_dangling_symlinks=True)
        try:
            uv("build", "--quiet", "--sdist", "--out-dir", folder, str(copy), variables={**_VERSION, **_no_color()})
            return _parsed(_in_archive(next(Path(folder).glob("*.tar.gz"))), "the package's own build"), ""
        except (InstallError, OSError, StopIteration, KeyError, tarfile.TarError) as error:
            last = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
            text = f"What the package depends on is not known, because its source archive cannot be built: {last[-1]}"
            return Metadata(), text.replace(folder, "")


def _no_color() -> dict[str, str]:
    return {"NO_COLOR": "1", **({"HOME": os.environ["HOME"]} if "HOME" in os.environ else {})}


def _in_archive(archive: Path) -> str:
    """Return the text of the file at the top of a source archive."""
    with tarfile.open(archive) as files:
        name = min((name for name in files.getnames() if name.endswith(f"/{_FILE}")), key=len)
        member = files.extractfile(name)
        return member.read().decode("utf-8", "replace") if member else ""


def _parsed(text: str, origin: str) -> Metadata:
    message: Message = Parser().parsestr(text, headersonly=True)
    needs: list[str] = []
    extras: dict[str, list[str]] = {}
    for line in message.get_all("Requires-Dist", []):
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            needs.append(line)
            continue
        for extra in message.get_all("Provides-Extra", []):
            if requirement.marker.evaluate({"extra": extra}):
                requirement.marker = None
                extras.setdefault(extra, []).append(str(requirement))
                break
    return Metadata(
        message.get("Name", ""),
        message.get("Requires-Python", ""),
        tuple(needs),
        {extra: tuple(lines) for extra, lines in extras.items()},
        origin,
    )
