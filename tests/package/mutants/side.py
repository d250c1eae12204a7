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


def use(_: Any, *, backend: str, folder: str) -> tuple[str, dict[str, Any]]:
    """Forget the backend's modules, take it from ``folder`` from now on, and return the file that it comes from."""
    name = f"{mhc.backends.__name__}.{backend}"
    for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[module]
    own = Path(mhc.backends.__file__).parent
    mhc.backends.__path__ = [folder, str(own)]
    importlib.invalidate_caches()
    mhc.backends._kernels.cache_clear()
    kernels.compile_once.cache_clear()
    return str(importlib.import_module(name).__file__), {}
