"""Change modules when the program imports them: a stand-in must be there before anything takes a name out of them."""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], None]
_CHANGES: dict[str, list[Change]] = defaultdict(list)


class _Finder(MetaPathFinder):
    """Find the modules that are to be changed, by asking all other finders."""

    def __init__(self) -> None:
        self.asking: set[str] = set()

    def find_spec(self, name: str, _: Sequence[str] | None, __: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _CHANGES or name in self.asking:
            return None
        self.asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asking.discard(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _ChangingLoader(spec.loader)
        return spec


class _ChangingLoader(Loader):
    """Load a module with its own loader, and change it then."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self.own.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        module.__loader__ = self.own
        self.own.exec_module(module)
        for change in _CHANGES[module.__name__]:
            change(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


def when_imported(name: str, change: Change) -> None:
    """Call ``change`` with the module once it is imported; at once if it is."""
    if name in sys.modules:
        change(sys.modules[name])
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _CHANGES[name].append(change)
