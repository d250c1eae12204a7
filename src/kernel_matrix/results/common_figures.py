"""Hold the figures that limits are made from to those of the other results of the same case.

The golden and the baseline are computed on the CPU of every machine, from the same inputs, so their figures hardly
differ. In the results of this repository (two kinds of machine, 433 outputs with 8 to 11 results each) a conditioning
differs from the median by 2e-8 of it at most, and a floor is 2.6 times the median at most (the sums of the baseline are
in another order on another CPU; in few elements the luck of one rounding shows).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from kernel_matrix.config.plan import Case
from kernel_matrix.job.budget import least_noise
from kernel_matrix.results.deciding import Dated, Inputs, inputs_key
from kernel_matrix.results.limits import SOURCES, Figures
from kernel_matrix.store.record import Record, outputs_of

FEWEST = 3  # results: two that differ do not say which of them is wrong
FLOOR = 4.0  # how many times the noise of the other results a floor may be
# How far a figure may be from the median, relative to that.
_NEAR = {
    "elements": 0.0,
    "steps": 0.0,
    "itemsize": 0.0,
    "unit": 1e-6,  # that of a gradient is the golden's largest value
    "largest": 1e-3,
    "conditioning_max_abs": 1e-3,
    "conditioning_rel_fro": 1e-3,
}
_FLOORS = ("floor_max_abs", "floor_rel_fro")

_Key = tuple[Inputs, str, bool]  # the case, the output without its variant, and whether the results are stale


@dataclass(frozen=True)
class CommonFigures:
    """The median of each figure, by case, output, and whether the results are stale; none of fewer than three."""

    medians: Mapping[_Key, Figures] = field(default_factory=dict)

    def fault_of(self, case: Case, dated: Dated) -> str:
        """Return which figure of a record is out of line with the other results, and by how much; empty if none is."""
        if not has_known_inputs(case, dated.record):
            return ""
        for output, figures in outputs_of(dated.record.metrics).items():
            common = self.medians.get((inputs_key(case), output.partition("@")[0], bool(dated.stale)))
            if common and (fault := _fault_of(figures, common, case.owed.ulps)):
                return f"of {output} {fault}"
        return ""


def has_known_inputs(case: Case, record: Record) -> bool:
    """Return whether other results of the case had the same inputs: a suite's own test need not say what it draws."""
    return not case.owed.asserted or "inputs.sha256" in record.facts


def common_figures(cases: Iterable[Case], records: Mapping[str, Sequence[Dated]]) -> CommonFigures:
    """Return the medians over the results of all cells that ran. The variants of one result count once."""
    values: dict[_Key, list[Figures]] = defaultdict(list)
    for case in cases:
        for dated in records.get(case.id, ()):
            for output, figures in (
                _of_one_variant(dated.record).items() if has_known_inputs(case, dated.record) else ()
            ):
                values[inputs_key(case), output, bool(dated.stale)].append(figures)
    return CommonFigures({key: _medians(given) for key, given in values.items() if len(given) >= FEWEST})


def _of_one_variant(record: Record) -> dict[str, Figures]:
    """Return the figures of a record that ran, by output: those of the variant that was chosen, else of the first."""
    if record.action not in ("run", "emulate"):
        return {}
    chosen: dict[str, Figures] = {}
    for output, figures in outputs_of(record.metrics).items():
        name, _, variant = output.partition("@")
        if all(math.isfinite(figures.get(source, math.nan)) for source in SOURCES) and (
            not variant or name not in chosen
        ):
            chosen[name] = figures
    return chosen


def _medians(given: Sequence[Figures]) -> Figures:
    return {name: median(figures.get(name, 0.0) for figures in given) for name in (*_NEAR, *_FLOORS)}


def _fault_of(figures: Figures, common: Figures, ulps: float) -> str:
    for name, near in _NEAR.items():
        if abs(figures.get(name, 0.0) - common[name]) > near * abs(common[name]):
            return f"its {name} is {figures.get(name, 0.0):g}, and that of the other results is {common[name]:g}"
    least = least_noise(common["largest"], ulps)
    for name, noise in zip(_FLOORS, (least.max_abs, least.rel_fro), strict=True):
        usual = max(common[name], common[f"conditioning_{name.removeprefix('floor_')}"], noise)
        if figures.get(name, 0.0) > FLOOR * usual:
            return f"its {name} is {figures[name] / usual:.3g} times that of the other results"
    return ""
