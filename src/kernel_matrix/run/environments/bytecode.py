"""Let environments with the same files share what Python compiles of them.

uv links the files of a distribution from its cache into each environment. A framework has 1,500 modules, and Python
would compile them once for each environment: it keeps bytecode by the path of its source.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path


def share_bytecode(environment: Path, bytecode: Path) -> None:
    """Link the places of an environment's packages below ``bytecode`` to places that equal packages have in common.

    ``bytecode`` is the PYTHONPYCACHEPREFIX of the processes that will import them. Python still compares the time and
    size of each source with those that its bytecode names. A place that has bytecode already is left as it is.
    """
    for packages in environment.glob("lib/python*/site-packages"):
        own = bytecode / packages.relative_to(packages.anchor)
        own.mkdir(parents=True, exist_ok=True)
        for name, identity in _linked_packages(packages):
            common = bytecode / "common" / f"{name}-{identity}"
            common.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):  # made before, perhaps by another run just now
                (own / name).symlink_to(common)


def _linked_packages(packages: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each package whose files other environments may have too, and what identifies the files."""
    for initial in sorted(packages.glob("*/__init__.py")):
        status = initial.stat()
        if status.st_nlink > 1:  # else it is a copy, which has its own time
            yield initial.parent.name, f"{status.st_ino}-{status.st_mtime_ns}"
