"""Two sides -> their Difference: cells, noise, outputs element by element where both have them, and times."""

from __future__ import annotations

from dataclasses import asdict, replace

from kernel_matrix.report.difference import Difference, difference, with_unplanned
from kernel_matrix.report.document import Outline
from kernel_matrix.report.side import Side
from kernel_matrix.results import trend
from kernel_matrix.results.history import Measurement, Measurements


def compare_runs(before: Side, now: Side) -> Difference:
    """Return what differs between two runs."""
    past = _together(before.measurements, now.measurements)
    # Only what was measured up to the later run counts, with that run as the last one.
    until = {cell: tuple(one for one in series if one.started <= now.measurements[cell][-1].started)
             for cell, series in past.items() if now.measurements.get(cell)}  # fmt: skip
    outlines = _without_stale(before.outline), _without_stale(now.outline)
    found = with_unplanned(difference(*outlines, until), *outlines)
    slower, notes = _slower(before, until)
    return replace(found, slower=slower, notes=notes)


def _without_stale(outline: Outline) -> Outline:
    """Return a report where no cell is stale: a run is compared with another run, and not with the present source."""
    return outline.model_copy(update={"cells": tuple(cell.model_copy(update={"stale": ""}) for cell in outline.cells)})


def as_json(found: Difference) -> dict[str, object]:
    """Return the difference as JSON holds it."""
    names = ("broke", "mended", "less_exact", "slower", "gone", "other", "new")
    lists = {name: [asdict(one) for one in getattr(found, name)] for name in names}
    counts = {name: getattr(found, name) for name in ("same", "still_red", "not_run_here")}
    return {"schema_version": 1, "base": found.base, **lists, **counts, "notes": list(found.notes)}


def _together(one: Measurements, other: Measurements) -> dict[str, tuple[Measurement, ...]]:
    """Return the measurements of both histories, the oldest first. The same run in both counts once."""
    cells = dict.fromkeys((*one, *other))
    by_start = {cell: {run.started: run for run in (*one.get(cell, ()), *other.get(cell, ()))} for cell in cells}
    return {cell: tuple(runs[started] for started in sorted(runs)) for cell, runs in by_start.items()}


def _slower(before: Side, past: Measurements) -> tuple[tuple[trend.Slower, ...], tuple[str, ...]]:
    """Return the timed cases that became slower, and what could not be judged."""
    timed = {cell: series for cell, series in past.items() if series and series[-1].speed}
    if not timed:
        return (), ("Slower is not judged: neither run has a history with times.",)
    if not trend.is_available():
        return (), (trend.LACKING,)
    known = {cell: series[-1].started for cell, series in before.measurements.items() if series}
    slower = [one for cell, series in timed.items() for one in trend.slower(cell, series, known.get(cell, ""))]
    if short := trend.too_short(timed.values()):
        note = (
            f"Slower is not judged for {short} timed cases: they have fewer than {trend.FEWEST} runs on their device."
        )
        return tuple(slower), (note,)
    return tuple(slower), ()
