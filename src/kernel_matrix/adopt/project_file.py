"""Read what a project says of itself: its name, its Python, what it depends on, and where its tests are."""

from __future__ import annotations

import configparser
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from kernel_matrix.adopt.metadata import Metadata, metadata_of
from kernel_matrix.base.errors import UserError

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
