"""matrix.yaml -> the ids of all planned cases, by nested loops over its plain content."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kernel_matrix.vendors.registry import vendor_named

Facts = dict[str, Any]  # of a case: its axes, platform, target, toolchain, op and direction


class _Named(NamedTuple):
    """The axes of a case and its name, which are the same in every cell of an operator's direction."""

    name: str
    axes: Facts


def planned(matrix: Mapping[str, Any], tier: str) -> dict[str, Facts]:
    """Return the facts of every planned case of the tier, by id."""
    cases: dict[str, Facts] = {}
    tiers = ["quick"] if tier == "quick" else ["quick", "full"]
    directions = [(op, direction) for op, spec in matrix["ops"].items() for direction in spec["directions"]]
    # Thousands of cells have the same cases, so each is named once.
    untimed = {key: list(_named(matrix["ops"][key[0]], key[1], tiers)) for key in directions}
    timed = {key: list(_timed(matrix["ops"][key[0]], key[1])) for key in directions}
    for platform_name, platform in matrix["platforms"].items():
        for entry in platform["toolchains"]:
            entry = {"toolchain": entry} if isinstance(entry, str) else entry
            quick = _list(entry.get("quick") or {}) if tier == "quick" else [{}]
            for target in entry.get("targets") or platform["targets"]:
                place = {"platform": platform_name, "target": target, "toolchain": entry["toolchain"]}
                for key in directions:
                    lanes = matrix["ops"][key[0]].get("lanes")  # of the tests of a suite that could not be listed
                    if _has(matrix, entry, *key) and (lanes is None or tuple(place.values()) in lanes):
                        cases.update(_of_first(entry.get("cases") or {}, quick, place, *key, untimed[key]))
                        if _on_hardware(platform, entry, target):  # an entry chooses among the cases of the tiers alone
                            cases.update(_of_cell([], place, *key, timed[key]))
    return cases


def _has(matrix: Mapping[str, Any], entry: Mapping[str, Any], op: str, direction: str) -> bool:
    """Return whether a toolchain has the operator in this direction on a platform."""
    asked = [matrix["toolchains"][entry["toolchain"]].get("ops"), entry.get("ops")]
    return not any(ops is not None and op not in ops and f"{op}.{direction}" not in ops for ops in asked)


def _on_hardware(platform: Mapping[str, Any], entry: Mapping[str, Any], target: str) -> bool:
    """Return whether some machine runs the target's kernels on its own device: only these are timed."""
    machines = platform.get("machines")
    if machines is None:
        machines = platform["targets"] if vendor_named(platform["device"]).hosted else ()
    return target in machines and entry.get("runs", True) and not entry.get("emulated", False)


def _of_first(
    cases: Mapping[str, Any], quick: list[Any], place: Facts, op: str, direction: str, named: list[_Named]
) -> dict[str, Facts]:
    """Return the cases of a cell by the first choice for the quick tier that leaves it any."""
    for choice in quick:
        if chosen := dict(_of_cell([cases, choice], place, op, direction, named)):
            return chosen
    return {}


def _of_cell(
    only: list[Mapping[str, Any]], place: Facts, op: str, direction: str, named: list[_Named]
) -> Iterator[tuple[str, Facts]]:
    """Yield the id and the facts of each case of a cell whose axes have one of the values in each of ``only``."""
    cell = "/".join((place["platform"], place["target"], place["toolchain"], f"{op}.{direction}"))
    for name, axes in named:
        if not any(axis in axes and axes[axis] not in _list(of[axis]) for of in only for axis in of):
            yield f"{cell}/{name}", {**axes, **place, "op": op, "direction": direction}


def _named(op: Mapping[str, Any], direction: str, tiers: list[str]) -> Iterator[_Named]:
    groups = [group for tier in tiers for group in op["cases"].get(tier) or []]
    return _of_groups(op, direction, groups, "")


def _timed(op: Mapping[str, Any], direction: str) -> Iterator[_Named]:
    return _of_groups(op, direction, op.get("timed") or [], "-timed")


def _of_groups(op: Mapping[str, Any], direction: str, groups: list[Mapping[str, Any]], end: str) -> Iterator[_Named]:
    for group in groups:
        if direction in _list(group.get("direction", direction)):
            for axes in _products(op, group):
                yield _Named("-".join(_label(axis, value) for axis, value in axes.items()) + end, axes)


def _products(op: Mapping[str, Any], group: Mapping[str, Any]) -> Iterator[Facts]:
    values = [_list(group[axis] if axis in group else op["defaults"][axis]) for axis in op["axes"]]
    for combination in itertools.product(*values):
        yield dict(zip(op["axes"], combination, strict=True))


def holds(where: Mapping[str, Any], facts: Facts) -> bool:
    """Return whether a case has one of the values that are named for each key."""
    return all(key in facts and facts[key] in _list(values) for key, values in where.items())


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _label(axis: str, value: Any) -> str:
    if isinstance(value, bool):
        return axis if value else f"no_{axis}"
    return value if isinstance(value, str) else f"{axis}{value:g}"
