"""Two reports -> Difference: what broke, what was mended, what is less exact, slower or gone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from kernel_matrix.base.evidence import EVIDENCE
from kernel_matrix.report.document import CellOutline, Noise, Outline
from kernel_matrix.results.history import Measurement, Measurements
from kernel_matrix.results.noise import as_float
from kernel_matrix.results.states import RED, State
from kernel_matrix.results.trend import Slower

WORKS: frozenset[State] = frozenset({"pass", "flaky", "fixed", "held", "compiled", "lowered"})


@dataclass(frozen=True)
class Transition:
    """A cell in an earlier report and now, each as ``state (evidence)``; it says where a case was emulated."""

    cell: str
    before: str
    after: str
    reason: str
    repeat: str
    state: State


@dataclass(frozen=True)
class Difference:
    """All transitions of the cells that both reports have, and how many cells only one of them has.

    ``gone`` are the cells that had a result, and have none now or only one of less evidence. They are in one of the
    other groups too, if they are planned.
    """

    newly_red: tuple[Transition, ...]
    no_longer_red: tuple[Transition, ...]
    other: tuple[Transition, ...]
    still_red: int
    same: int
    new: tuple[Transition, ...]
    not_run_here: int
    base: str  # the earlier report, in words
    gone: tuple[Transition, ...] = ()
    less_exact: tuple[LessExact, ...] = ()
    slower: tuple[Slower, ...] = ()
    notes: tuple[str, ...] = ()  # what could not be judged

    @property
    def broke(self) -> tuple[Transition, ...]:
        """The cells that are red now and were not, and have a result."""
        return tuple(one for one in self.newly_red if one.state in ("fail", "error"))

    @property
    def mended(self) -> tuple[Transition, ...]:
        """The cells that work now and did not: also those whose expectation is to be taken out of matrix.yaml."""
        gone = {one.cell for one in self.gone}
        changed = (*self.no_longer_red, *self.newly_red)
        return tuple(one for one in changed if one.state in WORKS and one.cell not in gone)

    @property
    def changed(self) -> tuple[Transition, ...]:
        """The cells that changed otherwise: what a device ran was emulated before, or another state is as grey."""
        gone = {one.cell for one in self.gone}
        return tuple(one for one in self.other if one.cell not in gone)

    @property
    def is_worse(self) -> bool:
        """True if something broke or became less exact."""
        return bool(self.broke or self.less_exact)


def difference(before: Outline, now: Outline, past: Measurements | None = None) -> Difference:
    """Compare the cells of a report with the cells of an earlier one.

    ``past`` are the measurements of earlier runs: they say how far a noise ratio scatters.
    """
    earlier = {cell.id: cell for cell in before.cells}
    groups: dict[str, list[Transition]] = {
        name: [] for name in ("newly_red", "no_longer_red", "other", "new", "still_red", "same")
    }
    for cell in now.cells:
        groups[_group(earlier.get(cell.id), cell)].append(_transition(earlier.get(cell.id), cell))
    run = before.run
    uncompared = sum(not_compared(earlier[cell.id], cell) for cell in now.cells if cell.id in earlier)
    return Difference(
        newly_red=tuple(groups["newly_red"]),
        no_longer_red=tuple(groups["no_longer_red"]),
        other=tuple(groups["other"]),
        still_red=len(groups["still_red"]),
        same=len(groups["same"]),
        new=tuple(groups["new"]),
        not_run_here=len(earlier.keys() - {cell.id for cell in now.cells}),
        base=f"{', '.join(run.commits) or 'an unknown commit'} ({run.tier} tier, {run.created})",
        gone=tuple(_without_result(earlier, now.cells)),
        less_exact=tuple(
            one
            for cell in now.cells
            if cell.id in earlier
            for one in less_exact(earlier[cell.id], cell, _earlier((past or {}).get(cell.id, ())))
        ),
        notes=(f"The noise of {uncompared} outputs is not compared: the two runs measured other cases.",)
        if uncompared
        else (),
    )


def with_unplanned(found: Difference, before: Outline, now: Outline) -> Difference:
    """Return the difference of two whole runs: what had a result and is not in the later run at all is gone too."""
    present = {cell.id for cell in now.cells}
    absent = [cell for cell in before.cells if cell.id not in present and cell.evidence != "planned"]
    lost = [Transition(cell.id, _words(cell), "not planned", "", cell.repeat, "missing") for cell in absent]
    return replace(found, gone=(*found.gone, *lost))


def _earlier(series: Sequence[Measurement]) -> list[Measurement]:
    """Return the measurements before the last one that were made on its device."""
    return [one for one in series[:-1] if one.device == series[-1].device]


def _without_result(earlier: dict[str, CellOutline], cells: Iterable[CellOutline]) -> Iterable[Transition]:
    """Yield the cells that have less evidence now, and did not fail: no machine ran them, or compiled them."""
    for cell in cells:
        before = earlier.get(cell.id)
        lost = before and EVIDENCE.index(cell.evidence) < EVIDENCE.index(before.evidence)
        if before and lost and cell.state not in ("fail", "error", "known"):
            yield _transition(before, cell)


def _group(before: CellOutline | None, now: CellOutline) -> str:
    """Return which of the groups a cell belongs to."""
    red = now.state in RED
    if before is None:
        return "newly_red" if red else "new"
    if red != (before.state in RED):
        return "newly_red" if red else "no_longer_red"
    if _words(before) != _words(now):
        return "other"
    return "still_red" if red else "same"


def _transition(before: CellOutline | None, now: CellOutline) -> Transition:
    reason = "; ".join(text for text in (now.reason, now.stale and f"stale: {now.stale}") if text)
    return Transition(now.id, _words(before) if before else "not planned", _words(now), reason, now.repeat, now.state)


def _words(cell: CellOutline) -> str:
    untried = cell.cases.get("unavailable", 0) if cell.state != "unavailable" else 0
    marks = {"emulated": cell.emulated, "stale": cell.stale, f"{untried} unavailable": untried}
    known = [cell.evidence, *(mark for mark, holds in marks.items() if holds)]
    return f"{cell.state} ({', '.join(dict.fromkeys(known))})"


# Without a history, a ratio may grow by a quarter: another order of summation moves it by that much, and elements that
# share a sum do not scatter independently.
_FACTOR = 1.25
# The root mean square of n errors scatters by 1/√(2n) of itself, and the quotient of two of them by 1/√n. Of this, four
# times is allowed.
_DEVIATIONS = 4.0
_ENOUGH = 5  # earlier runs on the same device, whose own spread then says what may happen


@dataclass(frozen=True)
class LessExact:
    """An output whose ``figure`` grew beyond ``limit``; ``why`` says where the limit comes from."""

    cell: str
    dtype: str
    output: str
    figure: str
    before: float
    after: float
    limit: float
    why: str
    repeat: str


def less_exact(before: CellOutline, now: CellOutline, earlier: Sequence[Measurement] = ()) -> Iterator[LessExact]:
    """Yield the outputs of a cell that both runs have measured in the same cases, and that are less exact now.

    ``earlier`` are the measurements of runs before this one, on the device of this one.
    """
    for dtype, outputs in now.noise.items():
        for output, noise in outputs.items():
            former = before.noise.get(dtype, {}).get(output)
            if former is None or not same_cases(former, noise):
                continue
            history = [one.noise[f"{dtype}/{output}"] for one in earlier if f"{dtype}/{output}" in one.noise]
            for figure, values, limit, why in _figures(former, noise, history):
                if values[1] > limit:
                    yield LessExact(now.id, dtype, output, figure, *values, limit, why, now.repeat)


def same_cases(former: Noise, noise: Noise) -> bool:
    """Return whether two figures are of the same cases, as far as their numbers say."""
    return (former.cases, former.elements) == (noise.cases, noise.elements)


def not_compared(before: CellOutline, now: CellOutline) -> int:
    """Return how many outputs of a cell were measured in other cases in the two runs, such as in another tier."""
    return sum(
        output in before.noise.get(dtype, {}) and not same_cases(before.noise[dtype][output], noise)
        for dtype, outputs in now.noise.items()
        for output, noise in outputs.items()
    )


_Figure = tuple[str, tuple[float, float], float, str]


def _figures(former: Noise, noise: Noise, history: Sequence[float]) -> Iterator[_Figure]:
    """Yield the figures that both runs know, each with its two values, its limit and where that comes from."""
    elements = max(1, noise.elements)
    if former.ratio is not None and noise.ratio is not None:
        values = as_float(former.ratio), as_float(noise.ratio)
        yield "noise ratio", values, *ratio_limit(values[0], elements, history)
    if former.misrounded is not None and noise.misrounded is not None:
        shares = as_float(former.misrounded), as_float(noise.misrounded)
        yield "share of misrounded elements", shares, *misrounded_limit(shares[0], elements)


def ratio_limit(before: float, elements: int, history: Sequence[float] = ()) -> tuple[float, str]:
    """Return the largest noise ratio that is not less exact, and where it comes from."""
    scatter = before * (1 + _DEVIATIONS / math.sqrt(elements))
    if len(history) < _ENOUGH:
        return _FACTOR * scatter, f"the scatter of {elements} elements, and a quarter"
    most, least = max(history), min(history)
    spread = most + (most - least)
    if spread > scatter:
        return spread, f"the spread of {len(history)} earlier runs"
    return scatter, f"the scatter of {elements} elements"


def misrounded_limit(before: float, elements: int) -> tuple[float, str]:
    """Return the largest share of misrounded elements that is not less exact, and where it comes from."""
    count = before * elements
    limit = (_FACTOR * count + _DEVIATIONS * math.sqrt(count + 1)) / elements
    return limit, f"the scatter of a count in {elements} elements, and a quarter"
