"""matrix.yaml -> the ids of all planned cases, by nested loops over its plain content."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from kernel_matrix.vendors.registry import vendor_named

Facts = dict[str, Any]  # of a case: its axes, platform, target, toolchain, op and direction


def planned(matrix: Mapping[str, Any], tier: str) -> dict[str, Facts]:
    """Return the facts of every planned case of the tier, by id."""
    cases: dict[str, Facts] = {}
    for platform_name, platform in matrix["platforms"].items():
        for entry in platform["toolchains"]:
            entry = {"toolchain": entry} if isinstance(entry, str) else entry
            for target in entry.get("targets") or platform["targets"]:
                place = {"platform": platform_name, "target": target, "toolchain": entry["toolchain"]}
                for name, facts in _of_cell(matrix, platform, entry, tier, place):
                    cases[name] = facts
    return cases


def _of_cell(
    matrix: Mapping[str, Any], platform: Mapping[str, Any], entry: Mapping[str, Any], tier: str, place: Facts
) -> Iterator[tuple[str, Facts]]:
    machines = platform.get("machines")
    if machines is None:
        machines = platform["targets"] if vendor_named(platform["device"]).hosted else ()
    hardware = place["target"] in machines and entry.get("runs", True) and not entry.get("emulated", False)
    for op_name, op in matrix["ops"].items():
        tiers = ["quick"] if tier == "quick" else ["quick", "full"]
        groups = [(group, "") for name in tiers for group in op["cases"].get(name) or []]
        groups += [(group, "-timed") for group in op.get("timed") or [] if hardware]
        for direction in op["directions"]:
            asked = [matrix["toolchains"][place["toolchain"]].get("ops"), entry.get("ops")]
            if any(ops is not None and op_name not in ops and f"{op_name}.{direction}" not in ops for ops in asked):
                continue
            cell = "/".join((place["platform"], place["target"], place["toolchain"], f"{op_name}.{direction}"))
            for group, end in groups:
                if direction in _list(group.get("direction", direction)):
                    for axes in _products(op, group):
                        only = entry.get("cases") or {}
                        if any(axis in axes and axes[axis] not in _list(only[axis]) for axis in only):
                            continue
                        name = "-".join(_label(axis, value) for axis, value in axes.items())
                        yield f"{cell}/{name}{end}", {**axes, **place, "op": op_name, "direction": direction}


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
