"""The figures of a record's outputs, and the limits that follow from them by matrix.yaml. Pure functions.

A limit is never taken from a record: it is computed again by the formula that the job uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernel_matrix.config.owed import Owed
from kernel_matrix.job.budget import Pair, limits

Figures = Mapping[str, float]  # the figures of one output, by name

ERRORS = ("max_abs", "rel_fro")
# What the limits of an output are made from.
SOURCES = (
    *("floor_max_abs", "floor_rel_fro", "conditioning_max_abs", "conditioning_rel_fro"),
    *("unit", "steps", "largest", "itemsize"),
)
# What a record owes of each output.
FIGURES = ("elements", "nan", "inf", *ERRORS, "limit_max_abs", "limit_rel_fro", *SOURCES)
_NEW = ("unit", "steps", "largest", "itemsize")  # the records of earlier versions have none of these
DECLARED = ("declared_max_abs", "declared_rel_fro")  # a budget that stands in the suite's test
_SAME = 1e-9  # relative: how near the limit that a record names must be to the one computed again
ROUNDING = 1e-6  # relative: the sums over millions of elements that two figures are made from
_SIZES = (1, 2, 4, 8)  # bytes of a floating-point number


def is_of_an_earlier_version(outputs: Mapping[str, Figures]) -> bool:
    """Return whether a record has outputs, and says of none what its limits were made from."""
    return bool(outputs) and not any(name in figures for figures in outputs.values() for name in _NEW)


def limits_of(figures: Figures, owed: Owed, output: str = "") -> Pair:
    """Return the limits of one output, computed from its figures and matrix.yaml's ``accuracy``.

    ``output`` is its name, by which it may have a budget of its own. A suite that asserts by itself may declare a
    budget in its test. The cap of matrix.yaml holds for that one too.
    """
    rules = owed.rules(output)
    if owed.asserted and DECLARED[0] in figures:
        return Pair(min(figures[DECLARED[0]], rules.cap * figures["unit"]), figures.get(DECLARED[1], 0.0))
    return limits(
        Pair(figures["floor_max_abs"], figures["floor_rel_fro"]),
        Pair(figures["conditioning_max_abs"], figures["conditioning_rel_fro"]),
        largest=figures["largest"],
        itemsize=int(figures["itemsize"]),
        steps=figures["steps"],
        factor=rules.factor,
        rounded=rules.rounded,
        ulps=rules.ulps,
        cap=rules.cap * figures["unit"],
    )


def growth_limit(figures: Figures, owed: Owed, output: str) -> float:
    """Return how fast the error of an output may grow: by matrix.yaml, or as the suite says if that has no rule."""
    limit = owed.limit_growth(output)
    return figures.get("limit_growth", 0.0) if limit is None else limit


def fault_of(figures: Figures, owed: Owed, output: str = "") -> str:
    """Return why the figures of one output prove nothing or are outside their limits; empty if they are inside."""
    if absent := [name for name in FIGURES if name not in figures]:
        return f"the record owes {', '.join(absent)}"
    if impossible := [name for name in FIGURES if not _is_possible(name, figures[name])]:
        return f"{impossible[0]} cannot be {figures[impossible[0]]:g}"
    if figures["nan"] or figures["inf"]:
        return f"it has {figures['nan']:.0f} NaN and {figures['inf']:.0f} Inf"
    if not _errors_agree(figures):
        return "its max_abs and its rel_fro cannot both be true"
    computed = limits_of(figures, owed, output)
    for name, limit in zip(ERRORS, (computed.max_abs, computed.rel_fro), strict=True):
        if not math.isclose(figures[f"limit_{name}"], limit, rel_tol=_SAME):
            return (
                f"the record's limit of {name} is {figures[f'limit_{name}']:.6g}, and matrix.yaml makes it {limit:.6g}"
            )
        if not figures[name] <= limit:
            return f"{name} {figures[name]:.6g} is over its limit {limit:.6g}"
    if figures["largest"] and computed.rel_fro >= 1:
        return f"its limit of rel_fro is {computed.rel_fro:.3g}: an output of zeros would pass"
    return ""


def _is_possible(name: str, value: float) -> bool:
    if not math.isfinite(value) or value < 0:
        return False
    match name:
        case "elements" | "steps":
            return value >= 1 and value == int(value)
        case "nan" | "inf":
            return value == int(value)
        case "itemsize":
            return value in _SIZES
        case "unit":
            return value > 0
    return True


def _errors_agree(figures: Figures) -> bool:
    """Return whether the largest error and the relative Frobenius norm can be of the same output.

    The norm of n numbers is between the largest of them and √n times that, for the errors as for the golden.
    """
    error, relative, largest = figures["max_abs"], figures["rel_fro"], figures["largest"]
    if not error or not relative or not largest:
        return not largest or (not error) == (not relative)
    root = math.sqrt(figures["elements"]) * (1 + ROUNDING)
    return error / (largest * root) <= relative <= error * root / largest
