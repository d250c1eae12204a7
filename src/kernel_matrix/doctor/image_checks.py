"""Doctor's checks inside a platform's image: the environments that were made in it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from kernel_matrix.base.versions import satisfies
from kernel_matrix.base.words import counted
from kernel_matrix.doctor.environment import examine
from kernel_matrix.run.container import places
from kernel_matrix.run.environments.local import LocalInterpreter
from kernel_matrix.run.executors import InstallError, MachineError
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.system import last_line


def environment(locks: Sequence[Path], platform: str) -> Finding:
    """Start the image's environment of one of these locks, and compare its packages with the versions in the lock."""
    lock = next((one for one in locks if Path(places.python_of(one)).exists()), locks[0])
    what, python = f"environment {lock.stem}", Path(places.python_of(lock))
    remedy = f"build the image anew, outside: `kernel-matrix run --platform {platform}`"
    if not python.exists():
        return Finding(what, "broken", f"{python} is not in this image", remedy, needed=True)
    try:
        with tempfile.TemporaryDirectory() as scratch:
            versions = examine(LocalInterpreter(python), Path(scratch)).versions
    except (InstallError, MachineError) as error:
        return Finding(what, "broken", f"{python} does not run: {last_line(str(error))}", remedy, needed=True)
    pins = [Requirement(line) for line in lock.read_text(encoding="utf-8").splitlines() if re.match(r"\w", line)]
    if unmet := _unmet(pins, versions):
        return Finding(what, "broken", f"not what {lock.name} names: {', '.join(unmet)}", remedy, needed=True)
    return Finding(what, "good", f"{counted(len(pins), 'package')}, as {lock.name} names them")


def _unmet(pins: list[Requirement], versions: Mapping[str, str]) -> list[str]:
    """Return the pins that apply to this machine and are not met. Every build of a version meets a pin of it."""
    public: dict[str, str] = {canonicalize_name(name): Version(version).public for name, version in versions.items()}
    return [
        f"{pin} (it has {public.get(canonicalize_name(pin.name), 'none')})"
        for pin in pins
        if (pin.marker is None or pin.marker.evaluate()) and not satisfies([str(pin)], public)
    ]
