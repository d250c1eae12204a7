"""The wheels on this machine's disk: those in the folders that pip or uv is configured with."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from kernel_matrix.base.pip_files import with_files


def known_wheels() -> Iterator[tuple[str, Version, Path]]:
    """Yield name, version and file of each wheel in the folders that pip or uv is configured with."""
    for folder in words("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        for path in sorted(Path(folder.removeprefix("file://")).glob("*.whl")):
            with contextlib.suppress(InvalidWheelFilename):
                name, version, *_ = parse_wheel_filename(path.name)
                yield name, version, path


def wheels_of(distribution: str) -> list[tuple[str, str]]:
    """Return the name and version of each wheel of a distribution in the folders that pip or uv has, oldest first."""
    wanted = canonicalize_name(distribution)
    return [(wanted, str(of)) for of in sorted({of for name, of, _ in known_wheels() if name == wanted})]


def words(*names: str) -> list[str]:
    """Return the words of the first of these environment variables that is set, by itself or in a file of pip's."""
    variables = with_files(os.environ)
    return next((re.split(r"[\s,]+", value.strip()) for name in names if (value := variables.get(name))), [])
