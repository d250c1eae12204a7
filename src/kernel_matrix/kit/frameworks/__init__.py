"""The frameworks whose arrays kernels take; each is imported only where an operator names it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel_matrix.kit.frameworks.base import Framework


def framework(name: str) -> Framework:
    """Return a framework by the name that a description has."""
    found: Framework = importlib.import_module(f"kernel_matrix.kit.frameworks.of_{name}").FRAMEWORK
    return found
