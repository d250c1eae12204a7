"""Choose which of the recorded launches are compiled, where not all of them are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from .unit import Unit

Item = TypeVar("Item")


def spread(items: Sequence[Item], most: int | None) -> list[Item]:
    """Return at most so many items, the first among them, and the others evenly over the rest."""
    if most is None or len(items) <= most:
        return list(items)
    if most == 1:
        return [items[0]]
    return [items[round(number * (len(items) - 1) / (most - 1))] for number in range(most)]


def chosen(launches: Iterable[Unit], configurations: int | None, specialisations: int | None) -> list[Unit]:
    """Return the launches that are compiled.

    A kernel is called in several ways (its specialisations): an autotuned call is one, whatever configurations it
    tries. Of each kernel at most ``specialisations`` calls are taken, and of each of these ``configurations``.
    """
    kernels: dict[object, dict[object, list[Unit]]] = defaultdict(lambda: defaultdict(list))
    for launch in launches:
        call = launch.tuned[0] if launch.tuned else launch.identity
        kernels[launch.group][call].append(launch)
    return [
        launch
        for calls in kernels.values()
        for call in spread(list(calls.values()), specialisations)
        for launch in spread(call, configurations)
    ]
