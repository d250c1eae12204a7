"""The history of earlier runs: how long each case took, when each lane last had a result, and figures of each cell."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import pydantic_core
from pydantic import BaseModel, Field, ValidationError

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.models import Lenient
from kernel_matrix.store import names
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import Bounds

FILE = "history.json"
SCHEMA_VERSION = 1
MOST_MEASUREMENTS = 40  # of a cell: enough to see a change, and a few hundred kB for the cells that run


class LaneHistory(Lenient):
    """The last results of a lane (``cuda/sm_90/compiler-1.2``), its badge then, and since when the lane is silent.

    A result is as old as the start of its job: a report may be made of results that are old.
    """

    last_result: datetime | None = Field(default=None, description="The start of the newest job that tried a case.")
    last_ran: datetime | None = Field(
        default=None, description="The start of the newest job that ran a case on a device or in an emulator."
    )
    last_compiled: datetime | None = Field(
        default=None, description="The start of the newest job that compiled a case and ran none of it."
    )
    message: str = Field(default="", max_length=200)
    color: str = Field(default="", pattern=r"^(#[0-9a-f]{6})?$")
    silent_since: datetime | None = None


class Measurement(Lenient):
    """The figures of a cell in one run. Measurements of different devices are not compared."""

    started: str = Field(max_length=40, description="The latest start of the cell's jobs.")
    commit: str = Field(default="", max_length=100)
    device: str = Field(default="", max_length=400)
    noise: dict[str, float] = Field(default_factory=dict, max_length=200, description="Ratios, by DTYPE/OUTPUT.")
    speed: dict[str, float] = Field(
        default_factory=dict, max_length=200, description="How many times as fast as the baseline, by timed case."
    )
    seconds: dict[str, float] = Field(default_factory=dict, max_length=200, description="The times, by timed case.")


Measurements = Mapping[str, tuple[Measurement, ...]]  # by cell, the oldest first


class _File(BaseModel):
    schema_version: int
    created: datetime
    lanes: dict[str, LaneHistory]
    measurements: dict[str, tuple[Measurement, ...]] = Field(default_factory=dict)
    seconds: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(default_factory=dict)


@dataclass(frozen=True)
class History:
    """The lanes of earlier runs, the seconds of each case, and the figures of each cell; empty without earlier runs."""

    lanes: Mapping[str, LaneHistory] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    measurements: Measurements = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    tables: tuple[Path, ...] = ()  # the folders that have the tables of runs


def read(folder: Path | None) -> History:
    """Read the site of an earlier run, any folder of results, or a folder with the tables of many runs.

    A file that cannot be read becomes one of the ``problems``, and reading goes on. A first run has no history at all.

    Raises:
        UserError: a folder was named and does not exist.
    """
    if folder is None:
        return History()
    if not folder.is_dir():
        raise UserError(f"--history {folder}: there is no such folder. Name one with the results of an earlier run.")
    records, problems = _beside_tables(folder)
    earlier = History()
    if names.find(folder):
        try:
            earlier = replace(of_tables([folder]), tables=(folder,))
        except UserError as error:  # not one table can be used
            problems.append(str(error))
    problems += earlier.problems
    seconds = {**measured(records), **earlier.seconds}
    path = folder / FILE
    if path.is_file():
        try:
            site = from_json(path.read_bytes())
            seconds = {**site.seconds, **seconds}
            earlier = together(earlier, site)
        except ValidationError as error:
            problems.append(f"{path}: {error.errors()[0]['msg']}. Lanes are silent since an unknown day.")
    return replace(earlier, seconds=seconds, problems=tuple(problems))


def _beside_tables(folder: Path) -> tuple[list[Record], list[str]]:
    """Return the records of journals and JUnit XML below a folder, and a sentence for each file that is not taken."""
    there = names.find_results([folder], Bounds())
    if not (files := [*there.journals, *there.junit]):
        return [], names.sentences(there.refused)
    from kernel_matrix.store.load import collect  # DuckDB and pyarrow take long to import

    found = collect(files)
    return [*found.records], [*found.broken, *names.sentences(there.refused)]


def with_former(earlier: History, folders: Sequence[Path]) -> History:
    """Return a history with the former runs that lie below the folders of a report's results."""
    if not (before := names.former(folders)):
        return earlier
    try:
        known = of_tables(before)
    except UserError as error:  # not one table can be used
        return replace(earlier, problems=(*earlier.problems, str(error)))
    return replace(
        together(known, earlier),
        seconds={**known.seconds, **earlier.seconds},
        problems=(*earlier.problems, *known.problems),
        tables=tuple(dict.fromkeys((*earlier.tables, *before, *folders))),
    )


def of_tables(folders: Sequence[Path]) -> History:
    """Return the history that follows from the tables of many runs: of lanes it knows the last results alone.

    Raises:
        UserError: no table of the folders can be used.
    """
    from kernel_matrix.results.past import past  # DuckDB and pyarrow take long to import

    known = past(folders)
    lanes = {lane: LaneHistory(**starts) for lane, starts in known.lanes.items()}
    measurements: dict[str, tuple[Measurement, ...]] = {}
    for cell, figures in known.measurements:
        measurements[cell] = (*measurements.get(cell, ()), Measurement(**figures))
    return History(lanes, known.seconds, merged({}, measurements), known.problems)


def together(one: History, other: History) -> History:
    """Return one history with the lanes and measurements of another one; of a lane, the later result counts."""
    lanes = dict(one.lanes)
    for name, lane in other.lanes.items():
        before = lanes.get(name, LaneHistory())
        is_later = before.last_result is None or (lane.last_result and lane.last_result >= before.last_result)
        lanes[name] = _latest(lane, before) if is_later else _latest(before, lane)
    return replace(one, lanes=lanes, measurements=merged(one.measurements, other.measurements))


def from_json(text: bytes) -> History:
    """Return the lanes and measurements of a file; nothing of a file of another version.

    Raises:
        ValidationError: it is no history.
    """
    file = _File.model_validate_json(text)
    return History(file.lanes, file.seconds, file.measurements) if file.schema_version == SCHEMA_VERSION else History()


def measured(records: Iterable[Record]) -> dict[str, float]:
    """Return the seconds of each case that ran or was compiled; the longest time where several machines did it."""
    seconds: dict[str, float] = {}
    for record in records:
        if record.action and 0 < record.seconds < math.inf:
            seconds[record.case] = max(record.seconds, seconds.get(record.case, 0.0))
    return seconds


def lane_id(case: str) -> str:
    """Return the lane of a case or a cell: ``cuda/sm_90/compiler-1.2``."""
    return "/".join(case.split("/", 3)[:3])


def carry_on(
    before: Mapping[str, LaneHistory],
    tried: Iterable[tuple[str, str, datetime]],
    badges: Mapping[str, tuple[str, str]],
    now: datetime,
) -> dict[str, LaneHistory]:
    """Return the history with this run added.

    ``badges`` has the message and the colour of the badge of each planned lane. ``tried`` has the lanes in which a
    machine tried at least one case, each with what a job did with it (``run``, ``emulate``, ``compile`` or nothing),
    and when that job started.
    """
    results: dict[str, list[LaneHistory]] = defaultdict(list)
    for lane, action, started in tried:
        ran, compiled = (started if action in names else None for names in (("run", "emulate"), ("compile",)))
        results[lane].append(LaneHistory(last_result=started, last_ran=ran, last_compiled=compiled))
    lanes = dict(before)
    for lane, (message, color) in badges.items():
        earlier = before.get(lane, LaneHistory())
        if of_lane := results.get(lane):
            lanes[lane] = _latest(LaneHistory(message=message[:200], color=color), earlier, *of_lane)
        else:
            lanes[lane] = earlier.model_copy(update={"silent_since": earlier.silent_since or now})
    return lanes


def _latest(lane: LaneHistory, *others: LaneHistory) -> LaneHistory:
    """Return a lane with the latest starts of several."""
    names = ("last_result", "last_ran", "last_compiled")
    starts = {name: [start for one in (lane, *others) if (start := getattr(one, name))] for name in names}
    return lane.model_copy(update={name: max(known, default=None) for name, known in starts.items()})


def with_run(before: Measurements, run: Mapping[str, Measurement]) -> dict[str, tuple[Measurement, ...]]:
    """Return the measurements together with the measurements of one run, by cell."""
    return merged(before, {cell: (measurement,) for cell, measurement in run.items()})


def merged(before: Measurements, more: Measurements) -> dict[str, tuple[Measurement, ...]]:
    """Return the measurements of both, the oldest first, the last ``MOST_MEASUREMENTS`` of each cell.

    A run is added once: the report of results that were reported before does not make their history longer.
    """
    together = dict(before)
    for cell, series in more.items():
        by_start = {run.started: run for run in (*before.get(cell, ()), *series)}
        together[cell] = tuple(by_start[started] for started in sorted(by_start))[-MOST_MEASUREMENTS:]
    return together


def to_json(
    lanes: Mapping[str, LaneHistory],
    now: datetime,
    measurements: Measurements | None = None,
    seconds: Mapping[str, float] | None = None,
) -> str:
    """Return the text of the file, with each measurement on a line of its own.

    ``seconds`` are the times of the last run's cases, by id.
    """
    content: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "created": now.isoformat(timespec="seconds"),
        "lanes": {name: lane.model_dump(mode="json") for name, lane in sorted(lanes.items())},
    }
    cells = [
        f"  {json.dumps(cell)}: [\n   " + ",\n   ".join(one.model_dump_json() for one in series) + "\n  ]"
        for cell, series in sorted((measurements or {}).items())
    ]
    if seconds:
        content["seconds"] = dict(sorted(seconds.items()))
    head = pydantic_core.to_json(content, indent=1).decode().removesuffix("\n}")  # Python's own is slow with an indent
    return head + ',\n "measurements": {\n' + ",\n".join(cells) + "\n }\n}\n"


def now() -> datetime:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).replace(microsecond=0)
