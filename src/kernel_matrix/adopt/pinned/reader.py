"""Keep the facts that the readers of one repository share: the machine that pins are read for, and their notes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from packaging.markers import Marker, UndefinedComparison, UndefinedEnvironmentName, default_environment
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from kernel_matrix.adopt.pinned.pin import shown

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
    text = getattr(error, "strerror", None) or str(error)
    return shown((text.splitlines() or [type(error).__name__])[0])
