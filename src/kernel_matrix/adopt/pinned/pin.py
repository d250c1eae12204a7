"""A pin: a distribution, the versions of it that a file wants, and the file; and for what machine pins are read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName, default_environment
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from kernel_matrix.base import errors

_LONGEST = 120


@dataclass(frozen=True)
class Pin:
    """Keep what one file says of one distribution: a version, some versions, or a place that is no index.

    A version has no local part: which build of it is installed (``+cu128``) is decided where it is installed.
    """

    name: str  # canonical
    file: str
    version: str = ""
    wanted: str = ""  # versions, as a specifier
    place: str = ""  # a repository or a folder

    @property
    def text(self) -> str:
        """The pin as it stands in a sentence."""
        if self.place:
            return f"{self.file} takes it from {self.place}"
        return f"{self.file} pins {self.version}" if self.version else f"{self.file} wants {self.wanted}"

    @property
    def required(self) -> str:
        """The versions as a specifier; empty of a place."""
        return f"=={self.version}" if self.version else self.wanted

    def admits(self, version: str) -> bool:
        """Return whether a version is what the file wants. What is in an index is never what a place has."""
        public = Version(version).public
        if self.version:
            return Version(public) == Version(self.version)
        return not self.place and SpecifierSet(self.wanted).contains(public, prereleases=True)


def exact(name: str, version: str, file: str) -> Pin:
    """Return the pin of one version.

    Raises:
        ValueError: it is no name, or no version.
    """
    return Pin(canonicalize_name(name, validate=True), file, version=Version(version).public)


def of_specifier(name: str, specifier: SpecifierSet, file: str) -> Pin:
    """Return the pin of a name with a specifier: of one version, or of some.

    Raises:
        ValueError: it is no version.
    """
    versions = [one.version for one in specifier if one.operator in ("==", "===") and not one.version.endswith(".*")]
    return exact(name, versions[0], file) if versions else Pin(canonicalize_name(name), file, wanted=str(specifier))


def elsewhere(name: str, place: str, file: str) -> Pin:
    """Return the pin of what comes from a place.

    Raises:
        ValueError: it is no name, or no place.
    """
    if not place:
        raise ValueError(f"{name} has neither a version nor a place")
    return Pin(canonicalize_name(name, validate=True), file, place=shown(place))


def shown(text: str) -> str:
    """Return a text of a file as it may be printed: in one line, not too long, an address without its password."""
    return re.sub(r"//[^/@]*@", "//", "".join(filter(str.isprintable, text)))[:_LONGEST]


def of_archive(address: str) -> tuple[str, str] | None:
    """Return the name and version of a wheel or a source archive, by its path or address; None if it is neither."""
    name = re.sub(r"[?#].*", "", address).replace("%2B", "+").replace("%2b", "+").replace("\\", "/").rpartition("/")[2]
    try:
        found, version = parse_wheel_filename(name)[:2] if name.endswith(".whl") else parse_sdist_filename(name)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
    return found, str(version)


OF_TESTS = re.compile(r"(?<![a-z])(test|dev|ci(?![a-z]))", re.IGNORECASE)
# What is for something else than the tests: its versions are no word about what these need.
_ASIDE = re.compile(
    r"(?<![a-z])(doc|lint|bench|example|demo|script|tool(?!chain|\.)|notebook|tutorial|paper|experiment|plot|perf|profil"
    r"|release|website|sample|stud(y|ies))",
    re.IGNORECASE,
)


def is_aside(where: str) -> bool:
    """Return whether a list of requirements is for something else than tests, by the words of where it stands."""
    return bool(_ASIDE.search(where)) and not OF_TESTS.search(where)


_MACHINE: dict[str, str | frozenset[str]] = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "implementation_name": "cpython",
    "platform_python_implementation": "CPython",
    "extra": "",
    "extras": frozenset(),
    "dependency_groups": frozenset(),
}


@dataclass
class Reader:
    """The machine is Linux on x86-64 with one Python. A file is read once, however often others name it."""

    root: Path
    python: str
    notes: list[str] = field(default_factory=list)
    seen: set[Path] = field(default_factory=set)

    def named(self, path: Path) -> str:
        """Return how a file is named in a sentence: from the root of the repository."""
        return "".join(filter(str.isprintable, Path(os.path.relpath(path, self.root)).as_posix()))

    def holds(self, marker: str, **sets: frozenset[str]) -> bool:
        """Return whether a marker holds; one that cannot be evaluated does.

        ``sets`` are ``extras`` and ``dependency_groups``, which the markers of pylock.toml ask for.
        """
        environment: dict[str, str | frozenset[str]] = {
            name: str(value) for name, value in default_environment().items()
        }
        environment |= {**_MACHINE, "python_version": self.python, "python_full_version": f"{self.python}.0", **sets}
        try:
            return not marker or Marker(marker).evaluate(environment)
        except (ValueError, KeyError, TypeError, UndefinedComparison, UndefinedEnvironmentName):
            return True

    def fits(self, pythons: str) -> bool:
        """Return whether the Python is one of those; Poetry's ``^3.12`` and ``~3.12`` are understood."""
        plain = re.sub(r"~(?!=)\s*([\d.]+)", r"==\1.*", pythons.replace("^", ">="))
        try:
            return f"{self.python}.99" in SpecifierSet(plain)
        except InvalidSpecifier:
            return True

    def note_python(self, path: Path, pythons: str) -> None:
        """Note that a file is for other Pythons, if it is."""
        if not self.fits(pythons):
            self.notes.append(
                f"{self.named(path)} is for Python {shown(pythons)}, and the environment has {self.python}"
            )


def reason_of(error: Exception) -> str:
    """Return why a file could not be read, in one line."""
    return shown(errors.reason_of(error))
