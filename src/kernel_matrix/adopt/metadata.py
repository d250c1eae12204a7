"""Get what a package depends on where no file says it: from PKG-INFO, or from a build of its source archive by uv."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.parser import Parser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from kernel_matrix.run.environments.venv import uv
from kernel_matrix.run.executors import InstallError

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
