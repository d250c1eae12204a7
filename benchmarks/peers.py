"""Published libraries: which version is there, and how one is imported beside another version of itself.

A library is installed like any other, or in a folder of its own: ``BENCH_PEERS`` names a folder that has one for each
rival (``pip install --no-deps --target FOLDER/tilekernels-1 tile-kernels==1.0.0``).
"""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from kernel_matrix.tools.bench.inside.protocol import AbsentError

LIGER, TILEKERNELS, TILEKERNELS_1, DEEPGEMM = "liger", "tilekernels", "tilekernels-1", "deepgemm"
TRANSFORMER_ENGINE, FLASHINFER, TILEGYM = "transformer-engine", "flashinfer", "tilegym"
_FOLDERS = "BENCH_PEERS"
# The distributions that have it, and the beginning of the version.
_DISTRIBUTIONS: Mapping[str, tuple[Sequence[str], str]] = {
    LIGER: (("liger-kernel",), ""),
    TILEKERNELS: (("tile-kernels",), "2."),
    TILEKERNELS_1: (("tile-kernels",), "1."),
    DEEPGEMM: (("deep-gemm", "sgl-deep-gemm"), ""),
    TRANSFORMER_ENGINE: (("transformer-engine",), ""),
    FLASHINFER: (("flashinfer-python",), ""),
    TILEGYM: (("tilegym",), ""),
}


def version(name: str) -> str:
    """Return the version of a library.

    Raises:
        AbsentError: it is not installed, or only in another version.
    """
    distributions, wanted = _DISTRIBUTIONS[name]
    places = [*_folders(name), *sys.path]
    found = [
        found.version
        for distribution in distributions
        for found in importlib.metadata.distributions(name=distribution, path=places)
    ]
    text = " or ".join(distributions)
    if not found:
        raise AbsentError(f"{text} is not installed in this environment")
    if not found[0].startswith(wanted):
        raise AbsentError(f"{text} is there in version {found[0]}, which has not the functions of {wanted}*")
    return found[0]


def versions() -> Mapping[str, str]:
    """Return the version of each library that is installed."""
    answer = {}
    for name in _DISTRIBUTIONS:
        try:
            answer[f"version.{name}"] = version(name)
        except AbsentError:
            continue
    return answer


@functools.cache
def module(name: str, path: str) -> ModuleType:
    """Import a module of a library. What another version has imported under the same names stays with its users.

    Raises:
        AbsentError: it is not installed, or does not import.
    """
    present = version(name)
    package, folders = path.partition(".")[0], _folders(name)
    imported = getattr(sys.modules.get(package), "__path__", None) or [""]
    if folders and not next(iter(imported)).startswith(f"{folders[0]}/"):  # another version's
        for other in [other for other in sys.modules if f"{other}.".startswith(f"{package}.")]:
            del sys.modules[other]
    sys.path[:0] = folders
    try:
        return importlib.import_module(path)
    except Exception as error:  # whatever a library does when it is imported, the other rivals are timed
        raise AbsentError(f"{name} {present} does not import: {type(error).__name__}: {error}") from None
    finally:
        del sys.path[: len(folders)]


def _folders(name: str) -> list[str]:
    """Return the folder that a library has of its own, or nothing."""
    folder = Path(os.environ.get(_FOLDERS, ""), name)
    return [str(folder)] if os.environ.get(_FOLDERS) and folder.is_dir() else []
