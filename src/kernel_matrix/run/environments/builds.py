"""The distribution that has another build for each kind of machine (``installer`` in matrix.yaml)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import canonicalize_name, parse_wheel_filename

from kernel_matrix.config.model import Installer
from kernel_matrix.vendors import builds

_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==[^\s;]+", re.MULTILINE)


def pin_of(installer: Installer, lock: str) -> str | None:
    """Return the pin (``NAME==VERSION``) of that distribution in the text of a lock file; None if it is not there."""
    wanted = canonicalize_name(installer.builds_of)
    return next((pin[0] for pin in _PIN.finditer(lock) if canonicalize_name(pin[1]) == wanted), None)


def chosen_build(installer: Installer, lock: str, kind: str) -> dict[str, str]:
    """Return the variables of uv that choose the build for a kind of machine; none if the lock does not pin it.

    PyTorch's build on PyPI needs none. Those of matrix.yaml come first, but ``auto`` goes by the driver of the machine,
    and no lock pins what it brings: it stands for the build of the kind.
    """
    pin = pin_of(installer, lock)
    if pin is None:
        return {}
    given = installer.cpu if kind == builds.CPU else installer.gpu
    if canonicalize_name(installer.builds_of) != builds.distribution():
        return dict(given)
    backend = builds.backend_of(kind, pin.partition("==")[2])
    own = {name: value for name, value in given.items() if (name, value) != ("UV_TORCH_BACKEND", "auto")}
    return {"UV_TORCH_BACKEND": backend, **own} if backend else own


def is_among(installer: Installer, wheels: Iterable[Path]) -> bool:
    """Return whether one of the wheels is a build of that distribution."""
    wanted = canonicalize_name(installer.builds_of)
    return any(parse_wheel_filename(wheel.name)[0] == wanted for wheel in wheels)
