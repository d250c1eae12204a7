"""Make tables of the docs from kept calibrations: of ``kernel-matrix calibrate``, a folder for each machine."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kernel_matrix.store.documents import documents

Document = Mapping[str, Any]  # what one run of calibrate wrote
Largest = tuple[float, str]  # a figure, and the toolchain that had it


def read(folder: Path) -> list[Document]:
    """Return the kept calibrations of a machine.

    Raises:
        ValueError: there are none, or two of them measured the same output in the same toolchain.
    """
    found = [json.loads(text) for _, text in documents(folder)]
    if not found:
        raise ValueError(f"{folder} has no calibration")
    rows = [row for one in found for row in one["outputs"]]
    measured = Counter((lane, row["op"], row["output"], row["dtype"]) for row in rows for lane in row["lanes"])
    twice = [key for key, count in measured.items() if count > 1]
    if twice:
        raise ValueError(f"{folder} has {twice[0]} twice")
    return found


def runs(found: Iterable[Document]) -> list[tuple[str, ...]]:
    """Return a line for each toolchain: its cases by their state, and the canaries."""
    states: dict[str, Counter[str]] = {}
    canaries: dict[str, Counter[str]] = {}
    seeds: dict[str, set[str]] = {}
    for one in found:
        [name] = {_toolchain(lane) for row in one["outputs"] for lane in row["lanes"]}
        states.setdefault(name, Counter()).update(one["outcomes"])
        canaries.setdefault(name, Counter()).update(one["canaries"])
        seeds.setdefault(name, set()).add(str(one["seeds"]))
    return [
        (
            f"`{name}`",
            ", ".join(sorted(seeds[name])),
            str(count.total()),
            ", ".join(f"{number} {state}" for state, number in sorted(count.items())),
            f"{canaries[name]['caught']} of {canaries[name]['injected']}",
        )
        for name, count in sorted(states.items())
    ]


def outputs(found: Iterable[Document]) -> list[tuple[str, ...]]:
    """Return a line for each output in each dtype: its largest share of the budget, and its largest noise ratio."""
    shares: dict[tuple[str, ...], list[Largest]] = {}
    ratios: dict[tuple[str, ...], list[Largest]] = {}
    for one in found:
        for row in one["outputs"]:
            key = (row["op"], row["output"], row["dtype"])
            [name] = {_toolchain(lane) for lane in row["lanes"]}
            shares.setdefault(key, []).append((row["share"]["largest"], name))
            if row["ratio"]:
                ratios.setdefault(key, []).append((row["ratio"]["largest"], name))
    return [
        (f"`{key[0]}`", f"`{key[1]}`", key[2], _largest(shares[key]), _largest(ratios.get(key, ())))
        for key in sorted(shares)
    ]


def _largest(figures: Iterable[Largest]) -> str:
    """Return the largest figure, and who has it; ``all`` where all toolchains have the same."""
    ordered = sorted(figures, reverse=True)
    if not ordered:
        return "-"
    text = f"{ordered[0][0]:.2f}"
    names = [name for figure, name in ordered if f"{figure:.2f}" == text]
    return f"{text} ({'all' if len(names) == len(ordered) > 1 else ', '.join(sorted(names))})"


def _toolchain(lane: str) -> str:
    return lane.split("/")[2]
