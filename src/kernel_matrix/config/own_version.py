"""Find the name and version of the package under test, where its source is on a job's import path.

Python knows the version of an installed distribution only. A source folder says it in its files.
"""

from __future__ import annotations

import email
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from kernel_matrix.config.model import Package

_VERSION = re.compile(r"^__version__(?:\s*:\s*[\w.]+)?\s*=\s*(['\"])(?P<version>[^'\"\n]*)\1\s*(?:#.*)?$", re.MULTILINE)


@dataclass(frozen=True)
class OwnVersion:
    """The distribution of the package under test, and its version; empty if its files do not say it."""

    name: str
    version: str


def own_version(root: Path, package: Package) -> OwnVersion | None:
    """Return the version of the package in ``package.source``; None where the package is not there.

    It is ``project.version`` of the nearest pyproject.toml that has the package's name, else the ``__version__`` that
    the package's module sets to a text, else what PKG-INFO says, as a source archive has one. Nothing is imported.
    """
    source = root / package.source
    module = next(
        (path for path in (source / package.name / "__init__.py", source / f"{package.name}.py") if path.is_file()),
        None,
    )
    if module is None:
        return None
    project = _project(module.parent, root, package.name)
    version = project.get("version") or _version_in(module) or _version_of_archive(root, package.name)
    return OwnVersion(str(project.get("name", package.name)), str(version))


def _project(folder: Path, root: Path, name: str) -> dict[str, Any]:
    """Return the ``project`` of the nearest pyproject.toml of that name, from a folder up to the repository's root."""
    for parent in (folder, *folder.parents):
        try:
            project = tomllib.loads((parent / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        except (OSError, ValueError):
            project = {}
        if canonicalize_name(str(project.get("name", ""))) == canonicalize_name(name):
            return dict(project)
        if parent.resolve() == root.resolve():
            break
    return {}


def _version_in(module: Path) -> str:
    """Return the text that a module sets ``__version__`` to; empty if it does not."""
    try:
        found = _VERSION.search(module.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return found["version"] if found else ""


def _version_of_archive(root: Path, name: str) -> str:
    """Return the version of the PKG-INFO of that name at the top of a source archive; empty if there is none."""
    try:
        metadata = email.message_from_bytes((root / "PKG-INFO").read_bytes())
    except OSError:
        return ""
    is_own = canonicalize_name(str(metadata.get("Name", ""))) == canonicalize_name(name)
    return str(metadata.get("Version", "")) if is_own else ""
