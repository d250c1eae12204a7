"""Change modules when they are imported, before anything takes a name out of them."""

from __future__ import annotations

import contextlib
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], object]


class ChangingFinder(MetaPathFinder):
    """Find modules as all others do, and change those that are to be changed once they have run."""

    def __init__(self) -> None:
        """Begin without a module that is to be changed."""
        self._changes: dict[str, list[Change]] = defaultdict(list)
        self._looking: set[str] = set()

    def when_imported(self, name: str, change: Change) -> None:
        """Call ``change`` with the module once it is imported; at once if it is."""
        if name in sys.modules:
            change(sys.modules[name])
            return
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        self._changes[name].append(change)

    def uninstall(self) -> None:
        """Change no other module."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what the other finders find; None for a module that is not to be changed."""
        if name not in self._changes or name in self._looking:
            return None
        self._looking.add(name)
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path if hasattr(finder, "find_spec"))
            spec = next((one for one in found if one is not None), None)
        finally:
            self._looking.discard(name)
        if spec is not None and spec.loader is not None:
            self._then_change(spec.loader)
        return spec

    def _then_change(self, loader: Any) -> None:
        """Let a loader change its module after it has run it."""
        run = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            run(module)
            for change in self._changes[module.__name__]:
                change(module)

        with contextlib.suppress(AttributeError):  # a loader of another kind: its module stays as it is
            loader.exec_module = exec_module
