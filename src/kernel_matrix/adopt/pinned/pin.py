"""A pin: a distribution, the versions of it that a file wants, and the file."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

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
