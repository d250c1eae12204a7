"""The runs that ``diff`` compares: read from a site, an address or results, measured for the history, and compared."""

from __future__ import annotations

import math
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from urllib.parse import urljoin

from pydantic import ValidationError

from kernel_matrix.base.errors import UserError, reason_of
from kernel_matrix.base.words import counted
from kernel_matrix.report.difference import Difference, LessExact, Transition, difference, with_unplanned
from kernel_matrix.report.document import FILE, BenchResult, Cell, Document, Outline
from kernel_matrix.results import history, trend
from kernel_matrix.results.history import Measurement, Measurements
from kernel_matrix.results.moved import Moved, movement
from kernel_matrix.results.noise import as_float
from kernel_matrix.store.record import BENCH, Record


def measurements(document: Document) -> dict[str, Measurement]:
    """Return the noise ratios and times of every cell that has some, by cell."""
    of_cells = {cell.id: _measurement(document, cell) for cell in document.cells if cell.noise or cell.timed}
    return of_cells | _of_bench(document.bench)


def _of_bench(results: Iterable[BenchResult]) -> dict[str, Measurement]:
    """Return the times of the benchmark, of the device that was used last, by ``bench:`` and the cell's id."""
    by_cell: dict[str, list[BenchResult]] = {}
    for one in results:
        if one.time and not one.quick:
            cell = f"{BENCH}{one.platform}/{one.target}/{one.toolchain}/{one.op}.{one.direction}"
            by_cell.setdefault(cell, []).append(one)
    made = {}
    for cell, given in by_cell.items():
        last = max(given, key=lambda one: one.started)
        same = [one for one in given if one.device == last.device]
        made[cell] = Measurement(
            started=last.started,
            commit=last.commit[:100],
            device=last.device[:400],
            speed={  # a baseline that was not timed has no ratio
                one.case: float(ratio)
                for one in same
                if isinstance(ratio := one.figures.get("baseline_ratio"), (int, float))
            },
            seconds={one.case: one.time.median_us / 1e6 for one in same if one.time},
        )
    return made


def _measurement(document: Document, cell: Cell) -> Measurement:
    jobs = [document.jobs[place] for place in cell.measured]
    return Measurement(
        started=max((job.get("started", "") for job in jobs), default="")[:40],
        commit=", ".join(sorted({job.get("commit", "") for job in jobs}))[:100],
        device="; ".join(sorted({job.get("device", "") for job in jobs}))[:400],
        noise=_ratios(cell),
        speed={timed.case: timed.ratio for timed in cell.timed},
        seconds={timed.case: timed.run for timed in cell.timed},
    )


def _ratios(cell: Cell) -> dict[str, float]:
    """Return the finite noise ratios: JSON has no other numbers, and a result that is Inf fails anyhow."""
    ratios = {
        f"{dtype}/{output}": as_float(noise.ratio)
        for dtype, outputs in cell.noise.items()
        for output, noise in outputs.items()
        if noise.ratio is not None
    }
    return {name: ratio for name, ratio in ratios.items() if ratio < math.inf}


_MOST_BYTES = 64 * 2**20
_SECONDS = 30


@dataclass(frozen=True)
class Side:
    """One run: the part of its report that is compared, its history with itself, and its records where they are here.

    A published report has no records, so that its outputs cannot be compared element by element.
    """

    name: str
    outline: Outline
    measurements: Measurements = field(default_factory=dict)
    records: tuple[Record, ...] = ()


def is_address(name: str) -> bool:
    """Return whether a run is named by the address of its compat.json."""
    return name.startswith(("https://", "http://"))


def is_site(path: Path) -> bool:
    """Return whether a path is a site or its compat.json, and not a folder of results."""
    return path.name == FILE or (path / FILE).is_file()


def read_site(path: Path) -> Side:
    """Read a site, or its compat.json, and the history next to it.

    Raises:
        UserError: a file cannot be read, or is of another form.
    """
    file = path if path.name == FILE else path / FILE
    past = file.with_name(history.FILE)
    try:
        text = file.read_bytes()
        former = past.read_bytes() if past.is_file() else b""
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}. Name a site, or a folder of results.") from None
    return _side(str(path), text, former)


def read_address(address: str) -> Side:
    """Fetch a published compat.json, and the history next to it if there is one.

    Raises:
        UserError: it cannot be fetched, is too large, or is of another form.
    """
    if not address.rpartition("/")[2].partition("?")[0]:
        address = urljoin(address, FILE)
    text = _fetch(address)
    try:
        former = _fetch(urljoin(address, history.FILE))
    except UserError:
        former = b""
    return _side(address, text, former)


def _side(name: str, text: bytes, former: bytes) -> Side:
    try:
        outline = Outline.model_validate_json(text)
        past = history.from_json(former).measurements if former else {}
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{name}: {place}: {first['msg']}. It is no report that can be compared.") from None
    return Side(name, outline, past)


def _fetch(address: str) -> bytes:
    try:
        with urllib.request.urlopen(address, timeout=_SECONDS) as response:  # noqa: S310 - is_address has checked it
            text: bytes = response.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        reason = reason_of(reason) if isinstance(reason, Exception) else reason
        raise UserError(f"{address}: {reason}. Name the address of a published {FILE}.") from None
    if len(text) > _MOST_BYTES:
        raise UserError(f"{address}: it is larger than {_MOST_BYTES >> 20} MiB. Name the address of a {FILE}.")
    return text


def compare_runs(before: Side, now: Side, *, whole: bool = True) -> Difference:
    """Return what differs between two runs. The later one may be not ``whole``: then nothing that it lacks is gone."""
    past = history.merged(before.measurements, now.measurements)
    # Only what was measured up to the later run counts, with that run as the last one.
    until = {cell: tuple(one for one in series if one.started <= now.measurements[cell][-1].started)
             for cell, series in past.items() if now.measurements.get(cell)}  # fmt: skip
    outlines = _without_stale(before.outline), _without_stale(now.outline)
    found = difference(*outlines, until)
    found = with_unplanned(found, *outlines) if whole else found
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
        of = counted(short, "timed case")
        note = f"Slower is not judged for {of}, with fewer than {trend.FEWEST} runs on the device."
        return tuple(slower), (note,)
    return tuple(slower), ()
