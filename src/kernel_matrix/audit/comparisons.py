"""Count what the lines of a suite see of known faults from the raw results."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kernel_matrix.audit.raw import Raw

_Figures = dict[str, Any] | None
# The fault as it was put in where a line allows no error at all: of integers, one element was off by 1.
_WITHOUT_NOISE = {"one element off by 1 % of the largest": "one element off by 1"}


def figures_of(shown: Mapping[str, Any] | None) -> _Figures:
    """Return the figures that the page shows of a cell, with its lines by their names."""
    if shown is None:
        return None
    lines = {
        (line["at"], line["call"]): (line["seen"], line["faults"], sorted(line["lets_through"]))
        for line in shown["lines"]
    }
    return {"seen": shown["seen"], "faults": shown["faults"], "cases": shown["cases"], "lines": lines}


def found(raws: Iterable[Raw]) -> _Figures:
    """Return the same figures from the raw results of a cell; None where no line was asked."""
    passed: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    cases = 0
    for raw in raws:
        try:
            lines = json.loads(raw.facts.get("comparisons") or "{}")["lines"]
        except (ValueError, KeyError, TypeError):
            continue
        cases += bool(lines)
        for line in lines:
            renamed = {} if line.get("budget") else _WITHOUT_NOISE
            of_line = passed[line["at"], line["call"]]  # where noise hides every fault it has none, and allows anything
            for fault, (_, through) in line["faults"].items():
                of_line[renamed.get(fault, fault)] += through
    if not passed:
        return None
    every = {fault for faults in passed.values() for fault in faults}
    missed = {fault for faults in passed.values() for fault, count in faults.items() if count}
    lines = {
        name: (len(faults) - len(through := [f for f in faults if faults[f]]), len(faults), sorted(through))
        for name, faults in passed.items()
    }
    return {"seen": len(every - missed), "faults": len(every), "cases": cases, "lines": lines}
