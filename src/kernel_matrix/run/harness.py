"""The part of the harness that a job imports, copied to a folder where nothing else is.

An installed harness shares its folder with every other package of that Python. A job must not find those packages: it
has its own, from its lock file. So a job gets a copy of ``kernel_matrix.job`` and of ``kernel_matrix.kit``, which a
suite may import, and finds it after its own packages.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import kernel_matrix
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.locking import locked

_PACKAGE = Path(kernel_matrix.__file__).parent
NO_CONFIGURATION = Path("kernel_matrix", "job", "pytest.ini")  # in the copy: nothing of pytest is configured
START = Path("kernel_matrix", "job", "start.py")  # the program that a job's Python runs, in the copy


def copy_for_jobs(build: Path) -> Path:
    """Return the folder below ``build`` with the modules that a job imports; make or mend it if need be."""
    return _copied(_files(), copy_folder(build))


def copy_with(tool: str, folder: Path) -> Path:
    """Return the folder with the modules that a job imports, and with those of a tool that run inside of its process.

    ``tool`` is the name of a folder of ``tools``; its modules of that process lie in its folder ``inside``.
    """
    above = [_PACKAGE / "tools", _PACKAGE / "tools" / tool]
    paths = [*(path / "__init__.py" for path in above), *sorted((above[-1] / "inside").rglob("*.py"))]
    return _copied({**_files(), **_contents(paths)}, folder)


def _copied(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write the files that a folder lacks or has otherwise, and return the folder."""
    with locked(folder.with_name(f"{folder.name}.lock"), wait=True):  # several jobs begin at once
        for name, content in files.items():
            path = folder / name
            if not path.exists() or path.read_bytes() != content:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, content)
    return folder


def copy_folder(build: Path) -> Path:
    """Return the folder of the copy, which need not exist yet. Its name is the hash of its content."""
    return build / "harness" / _content()


@functools.cache
def _content() -> str:
    """Return the hash of all that is copied; every case that ends asks for it twice."""
    content = hashlib.sha256()
    for name, data in sorted(_files().items()):
        content.update(f"{name} {hashlib.sha256(data).hexdigest()}\n".encode())
    return content.hexdigest()[:12]


@functools.cache
def _files() -> Mapping[str, bytes]:
    """Return the content of all that is copied, by its path in the copy."""
    rooms = (path for room in ("job", "kit") for path in (_PACKAGE / room).rglob("*.py"))
    modules = _contents([_PACKAGE / "__init__.py", *sorted(rooms)])
    return {**modules, str(NO_CONFIGURATION): b"[pytest]\n"}


def _contents(paths: Iterable[Path]) -> dict[str, bytes]:
    return {str(Path("kernel_matrix", path.relative_to(_PACKAGE))): path.read_bytes() for path in paths}
