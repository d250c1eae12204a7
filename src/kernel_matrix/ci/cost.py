"""Rows -> machine minutes by lane, from history. A case that was never measured is a guess, and counted as one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernel_matrix.base.words import counted
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row, Seconds
from kernel_matrix.results.history import lane_id

_MOST_LANES = 25


@dataclass
class Cost:
    """The cases of a lane that machines are started for, their minutes, and the part of both that is a guess."""

    cases: int = 0
    minutes: float = 0.0
    guessed: int = 0
    guessed_minutes: float = 0.0

    def add(self, seconds: float, *, is_known: bool) -> None:
        """Count a case."""
        self.cases += 1
        self.minutes += seconds / 60
        if not is_known:
            self.guessed += 1
            self.guessed_minutes += seconds / 60


def by_lane(row_plan: RowPlan, seconds: Seconds, measured: Mapping[str, float]) -> dict[str, Cost]:
    """Return the cost of each lane that a machine is started for, the dearest first."""
    lanes: dict[str, Cost] = {}
    for row in row_plan.rows:
        for case in (case for job in row.jobs for case in job.cases if row.labels and not case.exclusion):
            lanes.setdefault(lane_id(case.id), Cost()).add(seconds(case), is_known=case.id in measured)
    return dict(sorted(lanes.items(), key=lambda item: (-item[1].minutes, item[0])))


def total(lanes: Mapping[str, Cost]) -> Cost:
    """Return the cost of all lanes together."""
    names = ("cases", "minutes", "guessed", "guessed_minutes")
    return Cost(*(sum(getattr(lane, name) for lane in lanes.values()) for name in names))


def lines(row_plan: RowPlan, lanes: Mapping[str, Cost], setup: Mapping[str, float]) -> Iterator[str]:
    """Yield the cost of an event in words: by lane, and what rows take in addition to their cases."""
    yield f"machine minutes of cases: {_words(total(lanes))}"
    for name, lane in list(lanes.items())[:_MOST_LANES]:
        yield f"  {name}: {_words(lane)}"
    if rest := dict(list(lanes.items())[_MOST_LANES:]):
        yield f"  {counted(len(rest), 'more lane')}: {_words(total(rest))}"
    started = [row for row in row_plan.rows if row.labels]
    yield from _setup_lines(started, setup)


def _setup_lines(started: list[Row], setup: Mapping[str, float]) -> Iterator[str]:
    """Yield what rows take in addition to their cases, if the last report says it, and for how many it is not known."""
    known = [row for row in started if row.platform in setup]
    if known:
        minutes = sum(setup[row.platform] for row in known) / 60
        for_rows = f"{minutes:.0f} for {counted(len(known), 'row')}"
        yield f"machine minutes for other work than cases (checkout, image, environments): {for_rows}"
    if unknown := len(started) - len(known):
        of_rows = counted(unknown, "row")
        yield f"machine minutes for other work are not known of {of_rows}: no report has one of their platform"


def _words(cost: Cost) -> str:
    guess = f", of which {cost.guessed_minutes:.1f} a guess: {cost.guessed} never measured" if cost.guessed else ""
    return f"{cost.minutes:.1f} for {counted(cost.cases, 'case')}{guess}"
