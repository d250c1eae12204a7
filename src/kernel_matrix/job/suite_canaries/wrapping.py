"""Put a watch around the functions by which suites compare, as soon as a module that has one is imported."""

from __future__ import annotations

import contextlib
import functools
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from kernel_matrix.job.suite_canaries import compared
from kernel_matrix.job.suite_canaries.asking import OneAtATime
from kernel_matrix.job.suite_canaries.table import COMPARISONS, Comparison

_WATCHED = "__kernel_matrix_watched__"  # an attribute of a function that is watched already


class Tracing:
    """Hold the function by which code learns that a compiler traces it: then nothing is asked."""

    is_compiling: Callable[[], bool] = staticmethod(lambda: False)


class Finder:
    """Find modules as all others do, and watch the functions of those of the table once they are there."""

    def __init__(self) -> None:
        """Begin without a module that is looked for."""
        self._looking: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return what the other finders find; None for a module without such a function."""
        if name not in COMPARISONS or name in self._looking:
            return None
        self._looking.add(name)
        try:
            found = (finder.find_spec(name, path, target) for finder in sys.meta_path if hasattr(finder, "find_spec"))
            spec = next((one for one in found if one is not None), None)
        finally:
            self._looking.discard(name)
        if spec is not None and spec.loader is not None:
            _then_watch(spec.loader)
        return spec


def install() -> Finder:
    """Watch the modules that are imported already, wherever their functions were imported to, and those to come."""
    finder = Finder()
    sys.meta_path.insert(0, finder)
    replaced: dict[int, tuple[Any, Any]] = {}
    for name in COMPARISONS:
        if (module := sys.modules.get(name)) is not None:
            replaced |= {id(original): (original, new) for original, new in watch(module)}
    for module in [*sys.modules.values()] if replaced else []:
        for name, value in [*getattr(module, "__dict__", {}).items()]:
            original, new = replaced.get(id(value), (None, None))
            if original is value and original is not None:
                setattr(module, name, new)
    return finder


def uninstall(finder: Finder) -> None:
    """Watch no other module. What is watched goes on as it was before."""
    if finder in sys.meta_path:
        sys.meta_path.remove(finder)


def watch(module: ModuleType) -> Iterator[tuple[Any, Any]]:
    """Put a watch around the functions of a module; yield each with the one that takes its place."""
    for comparison in COMPARISONS[module.__name__]:
        *path, name = comparison.function.split(".")
        owner: Any = module
        for part in path:
            owner = getattr(owner, part, None)
        original = getattr(owner, name, None)
        if original is None or hasattr(original, _WATCHED):
            continue
        new = _watched(original, comparison)
        setattr(owner, name, new)
        if comparison.prepare is not None:
            Tracing.is_compiling = staticmethod(comparison.prepare(new, name) or Tracing.is_compiling)
        yield original, new


def _then_watch(loader: Any) -> None:
    """Let a loader watch its module after it has run it."""
    run = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        run(module)
        for _ in watch(module):
            pass

    with contextlib.suppress(AttributeError):  # a loader of another kind: its module is not watched
        loader.exec_module = exec_module


def _watched(original: Any, comparison: Comparison) -> Any:
    """Return a function that does what the original does, and then asks it about faults."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        if Tracing.is_compiling() or (asking := OneAtATime.asking) is None:
            return original(*args, **kwargs)
        with asking.alone() as alone:
            result = original(*args, **kwargs)
            if alone:
                compared.ask(asking, comparison, original, args, kwargs, result)
        return result

    setattr(call, _WATCHED, True)
    return call
