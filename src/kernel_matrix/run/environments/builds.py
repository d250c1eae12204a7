"""The distribution that has another build for each kind of machine (``installer`` in matrix.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from kernel_matrix.config.model import Installer

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==[^\s;]+", re.MULTILINE)


def pin_of(installer: Installer, lock: str) -> str | None:
    """Return the pin (``NAME==VERSION``) of that distribution in the text of a lock file; None if it is not there."""
    if installer.builds_of is None:
        return None
    wanted = canonicalize_name(installer.builds_of)
    return next((pin[0] for pin in _PIN.finditer(lock) if canonicalize_name(pin[1]) == wanted), None)


def is_among(installer: Installer, wheels: Iterable[Path]) -> bool:
    """Return whether one of the wheels is a build of that distribution."""
    if installer.builds_of is None:
        return False
    wanted = canonicalize_name(installer.builds_of)
    return any(parse_wheel_filename(wheel.name)[0] == wanted for wheel in wheels)
