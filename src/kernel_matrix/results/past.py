"""A folder of the tables of many runs -> what has changed from run to run, and the figures of each cell over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

from kernel_matrix.results.noise import MOST_ELEMENTS
from kernel_matrix.results.present import CLOCKS_DIFFER
from kernel_matrix.store.query import Database, opened

_DTYPE = "(?:^|-)(fp64|fp32|fp16|bf16)(?:-|$)"  # in the name of a case


class Transition(TypedDict):
    """A cell whose outcome changed from one run of a job on a device to the next."""

    cell: str
    before: str
    after: str
    since: str
    commit: str
    commit_before: str
    versions: dict[str, tuple[str, str]]
    reason: str


class Trend(TypedDict):
    """The figures of a cell over the runs of one device, the oldest first; None where a run has no such figure."""

    cell: str
    device: str
    started: list[str]
    commits: list[str]
    noise: dict[str, list[float | None]]  # by DTYPE/OUTPUT
    speed: dict[str, list[float | None]]  # by timed case
    seconds: dict[str, list[float | None]]  # by timed case


# A point of a trend is what one device has measured of a commit on one day: the jobs and shards that share a cell.
_POINT = "s.cell, s.device, s.commit, CAST(s.started AS date)"
_NOISE = f"""
SELECT s.cell, s.device, s.commit, max(s.started), coalesce(nullif(regexp_extract(s."case", '{_DTYPE}', 1), ''), 'any')
    || '/' || o.output AS key,
    sqrt(sum(w.weight * o.noise_ratio * o.noise_ratio) / sum(w.weight)) AS ratio
FROM states AS s JOIN outputs AS o ON s.run = o.run AND s."case" = o."case",
    LATERAL (SELECT least(o.elements, {MOST_ELEMENTS}) AS weight) AS w
WHERE s.outcome IN ('pass', 'fail') AND isfinite(o.noise_ratio) AND o.elements > 0 AND s.started < $now
GROUP BY {_POINT}, key
"""  # noqa: S608  the parts are ours
_TIMES = f"""
SELECT CASE WHEN s.method = 'bench' THEN 'bench:' || s.cell ELSE s.cell END AS cell, s.device, s.commit,
    max(s.started), s."case",
    arg_max(s.ratio, s.started) AS ratio, arg_max(s.seconds, s.started) AS seconds
FROM times AS s WHERE isfinite(s.ratio) AND s.started < $now GROUP BY {_POINT}, s.method, s."case"
"""  # noqa: S608
_TRANSITIONS = """
SELECT t.cell, t.before, t.after, t.since, t."commit", t.commit_before, t.reason, t.run, t.run_before
FROM transitions AS t WHERE t.since < $now ORDER BY t.since DESC NULLS LAST, t.cell
"""
_UPGRADES = """
SELECT a.run, b.run, a.distribution, b.version, a.version FROM versions AS a
JOIN (SELECT DISTINCT run, run_before FROM transitions WHERE since < $now) AS t ON a.run = t.run
JOIN versions AS b ON b.run = t.run_before AND b.distribution = a.distribution
WHERE a.version <> b.version ORDER BY a.distribution
"""
_SECONDS = """
SELECT c."case", arg_max(c.seconds, j.started) FROM cases AS c JOIN jobs AS j ON c.run = j.run
WHERE c.action <> '' AND c.seconds > 0 AND j.started < $now GROUP BY c."case"
"""
_LANES = """
SELECT platform || '/' || target || '/' || toolchain, max(started) FROM states
WHERE outcome IN ('pass', 'held', 'compiled', 'fail', 'error') AND started < $now GROUP BY ALL
"""


class Past(TypedDict):
    """The past of a report: the last result of each lane, the seconds of each case, and the trends."""

    lanes: dict[str, datetime]
    seconds: dict[str, float]
    trends: list[Trend]
    problems: tuple[str, ...]


def transitions(folder: Path) -> list[Transition]:
    """Return the transitions of the runs in a folder of tables, the newest first.

    Raises:
        UserError: the folder has no tables.
    """
    with opened([folder]) as database:
        upgrades: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        for run, run_before, distribution, before, after in _rows(database, _UPGRADES):
            upgrades.setdefault((run, run_before), {})[distribution] = before, after
        return [
            Transition(
                cell=cell,
                before=before,
                after=after,
                since=_text(since),
                commit=commit,
                commit_before=commit_before,
                versions=upgrades.get((run, run_before), {}),
                reason=reason,
            )
            for cell, before, after, since, commit, commit_before, reason, run, run_before in _rows(
                database, _TRANSITIONS
            )
        ]


def trends(folder: Path) -> list[Trend]:
    """Return the noise ratios and the times of every cell and device over the runs in a folder of tables.

    Raises:
        UserError: the folder has no tables.
    """
    with opened([folder]) as database:
        return _trends(database)


def past(folder: Path) -> Past:
    """Return what a report takes from the runs in a folder of tables.

    The seconds of a case are those of its latest run.

    Raises:
        UserError: the folder has no tables.
    """
    with opened([folder]) as database:
        return Past(
            lanes=dict(_rows(database, _LANES)),
            seconds={case: seconds for case, seconds in _rows(database, _SECONDS) if math.isfinite(seconds)},
            trends=_trends(database),
            problems=database.problems,
        )


def _trends(database: Database) -> list[Trend]:
    noise, times = _rows(database, _NOISE), _rows(database, _TIMES)
    points: dict[tuple[str, str], dict[tuple[str, str], datetime]] = {}
    for cell, device, commit, started, *_ in (*noise, *times):
        of_cell = points.setdefault((cell, device), {})
        key = commit, f"{started:%Y-%m-%d}"
        of_cell[key] = max(started, of_cell.get(key, started))
    made: dict[tuple[str, str], Trend] = {}
    places: dict[tuple[str, str, str, str], int] = {}
    for (cell, device), of_cell in sorted(points.items()):
        ordered = sorted(of_cell.items(), key=lambda item: (item[1], item[0]))
        places |= {(cell, device, *key): place for place, (key, _) in enumerate(ordered)}
        made[cell, device] = Trend(
            cell=cell,
            device=device,
            started=[_text(started) for _, started in ordered],
            commits=[commit for (commit, _), _ in ordered],
            noise={},
            speed={},
            seconds={},
        )

    def put(name: str, row: Sequence[Any], key: str, value: float) -> None:
        cell, device, commit, started = row[:4]
        trend = made[cell, device]
        figures: dict[str, list[float | None]] = trend[name]  # type: ignore[literal-required]
        series = figures.setdefault(key, [None] * len(trend["started"]))
        series[places[cell, device, commit, f"{started:%Y-%m-%d}"]] = value

    for row in sorted(noise):
        put("noise", row, row[4], row[5])
    for row in sorted(times):
        name = row[4].removeprefix(f"{row[0]}/").removesuffix("-timed")  # as the report names a timed case
        put("speed", row, name, row[5])
        put("seconds", row, name, row[6])
    return list(made.values())


def _rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query over the past: a run that started in the future, by this machine's clock, is not."""
    now = datetime.now(UTC).replace(tzinfo=None) + CLOCKS_DIFFER
    return list(database.connection.execute(query, {"now": now}).fetchall())


def _text(moment: datetime | None) -> str:
    """Return a time as the facts of a job have it."""
    return f"{moment.isoformat(timespec='seconds')}Z" if moment else ""
