"""Two sides -> their Difference: cells, noise, outputs element by element where both have them, and times."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

from kernel_matrix.report.difference import Difference, Transition, difference, with_unplanned
from kernel_matrix.report.document import Outline
from kernel_matrix.report.less_exact import LessExact
from kernel_matrix.report.side import Side
from kernel_matrix.results import trend
from kernel_matrix.results.history import Measurement, Measurements
from kernel_matrix.results.moved import Moved, movement


def compare_runs(before: Side, now: Side) -> Difference:
    """Return what differs between two runs."""
    past = _together(before.measurements, now.measurements)
    # Only what was measured up to the later run counts, with that run as the last one.
    until = {cell: tuple(one for one in series if one.started <= now.measurements[cell][-1].started)
             for cell, series in past.items() if now.measurements.get(cell)}  # fmt: skip
    outlines = _without_stale(before.outline), _without_stale(now.outline)
    found = with_unplanned(difference(*outlines, until), *outlines)
    moved, about_bits = _moved(before, now)
    slower, about_times = _slower(before, until)
    return replace(
        found, less_exact=(*found.less_exact, *moved), slower=slower, notes=(*found.notes, *about_bits, *about_times)
    )


def _without_stale(outline: Outline) -> Outline:
    """Return a report where no cell is stale: a run is compared with another run, and not with the present source."""
    return outline.model_copy(update={"cells": tuple(replace(cell, stale="") for cell in outline.cells)})


def as_json(found: Difference) -> dict[str, object]:
    """Return the difference as JSON holds it: a number that is not finite is a word, as in compat.json."""
    names = ("broke", "mended", "less_exact", "slower", "gone", "other", "new")
    lists = {name: [_json(one) for one in getattr(found, name)] for name in names}
    counts = {name: getattr(found, name) for name in ("same", "still_red", "not_run_here")}
    return {"schema_version": 1, "base": found.base, **lists, **counts, "notes": list(found.notes)}


def _json(change: Transition | LessExact | trend.Slower) -> dict[str, object]:
    values = asdict(change)
    return {name: str(v) if isinstance(v, float) and not math.isfinite(v) else v for name, v in values.items()}


def _together(one: Measurements, other: Measurements) -> dict[str, tuple[Measurement, ...]]:
    """Return the measurements of both histories, the oldest first. The same run in both counts once."""
    cells = dict.fromkeys((*one, *other))
    by_start = {cell: {run.started: run for run in (*one.get(cell, ()), *other.get(cell, ()))} for cell in cells}
    return {cell: tuple(runs[started] for started in sorted(runs)) for cell, runs in by_start.items()}


def _moved(before: Side, now: Side) -> tuple[tuple[LessExact, ...], tuple[str, ...]]:
    """Return the outputs that moved away from the former run, each with its worst case, and a note on the others."""
    found = movement(before.records, now.records)
    repeat = {cell.id: cell.repeat for cell in now.outline.cells}
    worst: dict[tuple[str, str, str], Moved] = {}
    for moved in sorted(found.too_far, key=lambda one: one.distance / one.limit):
        worst[moved.case.rpartition("/")[0], moved.dtype, moved.output] = moved
    less = tuple(
        LessExact(*place, "ULP from the former run", moved.former, moved.distance, moved.limit,
                  f"twice the former run's own error, and 4; {moved.case.rpartition('/')[2]} {moved.first}",
                  repeat.get(place[0], ""))
        for place, moved in sorted(worst.items())
    )  # fmt: skip
    if not found.compared:
        return less, ("No outputs were compared element by element: that needs samples of both runs.",)
    return less, (f"{found.identical} of {found.compared} outputs have the same bits in both runs.",)


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
