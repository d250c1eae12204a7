"""Functions of a library that somebody has put others in the place of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

Functions = Mapping[str, Any]  # by their names, with the module's


class _Owner(NamedTuple):
    """A module or a class, and its functions as they were at first."""

    owner: Any
    names: list[str]
    functions: tuple[Any, ...]
    get: Callable[[Mapping[str, Any]], tuple[Any, ...]]

    def is_changed(self) -> bool:
        """Return whether another function, or none, stands in the place of one: in a few microseconds if none does."""
        try:
            return self.get(vars(self.owner)) != self.functions  # tuples compare by identity first
        except KeyError:
            return True


def functions_of(*owners: Any) -> tuple[Callable[[], Functions], Callable[[Functions], None]]:
    """Return how one reads which functions of modules and classes are others now, and how one sets them back.

    A function that the library itself puts there, as its late imports do, is none that somebody has replaced.
    """
    first: list[_Owner] = []

    def read() -> Functions:
        if not first:
            first.extend(map(_as_it_is, owners))
        return {
            f"{one.owner.__name__}.{name}": vars(one.owner).get(name)
            for one in first
            if one.is_changed()
            for name, function in zip(one.names, one.functions, strict=True)
            if vars(one.owner).get(name) is not function and _is_foreign(vars(one.owner).get(name), one.owner)
        }

    def set_back(before: Functions) -> None:
        changed = read().keys() - before.keys()
        for one in first:
            for name, function in zip(one.names, one.functions, strict=True):
                if f"{one.owner.__name__}.{name}" in changed:
                    setattr(one.owner, name, function)

    return read, set_back


def _as_it_is(owner: Any) -> _Owner:
    there = {name: value for name, value in vars(owner).items() if callable(value) and not inspect.isclass(value)}
    return _Owner(owner, list(there), tuple(there.values()), _getter(list(there)))


def _getter(names: list[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return what gets the values of these names as a tuple; of one name alone ``itemgetter`` gives none."""
    return itemgetter(*names) if len(names) > 1 else lambda values: tuple(values[name] for name in names)


def _is_foreign(value: Any, owner: Any) -> bool:
    root = str(getattr(owner, "__module__", None) or owner.__name__).partition(".")[0]
    return str(getattr(value, "__module__", "")).partition(".")[0] != root
