"""Exchange the backend in the kernel's process: to import a toolchain anew for every mutant would take most time.

Called by name in that process, as the functions of ``kernels`` are.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import kernels
import mhc.backends

_taken: set[str] = set()  # modules that backends share and that were edited once


def use(_: Any, *, backend: str, folder: str, shared: str | None) -> tuple[str, dict[str, Any]]:
    """Forget the backend's modules, take it from ``folder`` from now on, and return the file that it comes from.

    ``shared`` is a module that backends share and that is in ``folder`` too.
    """
    name = f"{mhc.backends.__name__}.{backend}"
    if shared is not None:
        _taken.add(f"{mhc.backends.__name__}.{shared}")
    for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.") or each in _taken]:
        del sys.modules[module]
        vars(mhc.backends).pop(module.rpartition(".")[2], None)  # `from mhc.backends import` would find it here
    own = Path(mhc.backends.__file__).parent
    mhc.backends.__path__ = [folder, str(own)]
    importlib.invalidate_caches()
    mhc.backends._kernels.cache_clear()
    kernels.compile_once.cache_clear()
    return str(importlib.import_module(name).__file__), {}
