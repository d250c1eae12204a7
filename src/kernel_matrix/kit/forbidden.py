"""Modules that a kernel may not import: one that calls what its results are compared with is compared with itself."""

from __future__ import annotations

import contextlib
import importlib.abc
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any


class _Refused(importlib.abc.MetaPathFinder):
    """Refuse to import these modules, and those below them."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.allowed = False

    def has(self, name: str) -> bool:
        """Return whether a module is one of them."""
        return any(name == one or name.startswith(f"{one}.") for one in self.names)

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:  # noqa: ARG002
        """Refuse one of them; leave every other to those that find modules.

        Raises:
            ImportError: it is one of them.
        """
        if not self.allowed and self.has(name):
            raise ImportError(f"a kernel may not import {name}: it is what its results are compared with")
        return None


_refused = _Refused()


def refuse(names: Sequence[str]) -> None:
    """Refuse these modules from now on, also where they were imported before."""
    if tuple(names) == _refused.names and (not names or _refused in sys.meta_path):
        return
    _refused.names = tuple(names)
    if _refused not in sys.meta_path:
        sys.meta_path.insert(0, _refused)
    _forget(_refused.has)


@contextlib.contextmanager
def allowed() -> Iterator[None]:
    """Let them be imported until the block ends: a race needs what a kernel is compared with."""
    _refused.allowed = True
    try:
        yield
    finally:
        _refused.allowed = False


@contextlib.contextmanager
def forgotten(suite: str) -> Iterator[None]:
    """Forget, when the block ends, what it has imported of these modules and of the suite that has the module."""
    before = set(sys.modules)
    try:
        yield
    finally:
        folder = Path(str(getattr(sys.modules.get(suite), "__file__", None) or "/suite")).parent

        def is_new(name: str) -> bool:
            file = getattr(sys.modules[name], "__file__", None)
            of_suite = name not in before and file is not None and Path(file).parent == folder
            return name == suite or of_suite or _refused.has(name)

        _forget(is_new)


def _forget(is_to_go: Callable[[str], bool]) -> None:
    for name in [name for name in sys.modules if is_to_go(name)]:
        del sys.modules[name]
        parent, _, child = name.rpartition(".")
        if parent in sys.modules and hasattr(sys.modules[parent], child):
            delattr(sys.modules[parent], child)
