"""A folder of the tables of many runs -> what has changed from run to run, and the figures of each cell over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from kernel_matrix.results.noise import MOST_ELEMENTS
from kernel_matrix.results.present import CLOCKS_DIFFER
from kernel_matrix.store.query import Database, opened

_DTYPE = "(?:^|-)(fp64|fp32|fp16|bf16)(?:-|$)"  # in the name of a case

# A measurement is what one device has measured of a commit on one day: the jobs and shards that share a cell.
_OF_A_DAY = "s.cell, s.device, s.commit, CAST(s.started AS date)"
_FIGURES = ("noise", "speed", "seconds")
_LIST = "list((name, value) ORDER BY name) FILTER (value IS NOT NULL AND kind = '{0}')"
_MEASUREMENTS = f"""
WITH figures AS (
    SELECT 'noise' AS kind, s.cell, s.device, s.commit, max(s.started) AS started,
        coalesce(nullif(regexp_extract(s."case", '{_DTYPE}', 1), ''), 'any') || '/' || o.output AS name,
        sqrt(sum(w.weight * o.noise_ratio * o.noise_ratio) / sum(w.weight)) AS value
    FROM states AS s JOIN outputs AS o ON s.run = o.run AND s."case" = o."case",
        LATERAL (SELECT least(o.elements, {MOST_ELEMENTS}) AS weight) AS w
    WHERE s.outcome IN ('pass', 'fail') AND isfinite(o.noise_ratio) AND o.elements > 0 AND s.started < $now
    GROUP BY {_OF_A_DAY}, name
    UNION ALL  -- a timed case is named as the report names it
    SELECT unnest(['speed', 'seconds']), if(s.method = 'bench', 'bench:', '') || s.cell AS timed, s.device, s.commit,
        max(s.started), regexp_replace(substr(s."case", length(timed) + 2), '-timed$', ''),
        unnest([arg_max(s.ratio, s.started), arg_max(s.seconds, s.started)])
    FROM times AS s WHERE isfinite(s.ratio) AND s.started < $now GROUP BY {_OF_A_DAY}, s.method, s."case"
)
SELECT cell, device, commit, max(started) AS last, {", ".join(map(_LIST.format, _FIGURES))}
FROM figures GROUP BY cell, device, commit, CAST(started AS date) ORDER BY cell, device, last, commit
"""  # noqa: S608  the parts are ours
_TRANSITIONS = """
SELECT t.since, t.cell, t.before, t.after, t."commit", t.commit_before, t.reason, (t.run, t.run_before)
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
SELECT c.platform || '/' || c.target || '/' || c.toolchain AS lane, max(j.started) AS last_result,
    max(j.started) FILTER (c.action IN ('run', 'emulate')), max(j.started) FILTER (c.action = 'compile')
FROM cases AS c JOIN jobs AS j ON c.run = j.run
WHERE c.op <> '' AND c."case" NOT LIKE 'bench:%' AND c.outcome IN ('pass', 'fail', 'error') AND j.started < $now
GROUP BY lane
"""


_COVERAGE = """
SELECT min(started) AS first, platform, "commit", count(*) FILTER (works), count(*) FROM (
    SELECT min(started) AS started, platform, substr("commit", 1, 8) AS "commit", sum(passed + held) > 0 AS works
    FROM cells WHERE cases > excluded AND started < $now
    GROUP BY platform, substr("commit", 1, 8), op, direction
) AS operators GROUP BY platform, "commit" ORDER BY first NULLS FIRST, platform, "commit"
"""


class Past(NamedTuple):
    """The past of a report: the last results of each lane, the seconds of each case, and the measurements of cells.

    A lane has what :class:`kernel_matrix.results.history.LaneHistory` takes, and a measurement is a cell with what
    :class:`kernel_matrix.results.history.Measurement` takes.
    """

    lanes: dict[str, dict[str, Any]]
    seconds: dict[str, float]
    measurements: list[tuple[str, dict[str, Any]]]
    problems: tuple[str, ...]


def transitions(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return the transitions of the runs in folders of tables as the page has them, the newest first.

    Raises:
        UserError: the folders have no tables.
    """
    with opened(folders) as database:
        upgrades: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        for run, run_before, distribution, before, after in _rows(database, _UPGRADES):
            upgrades.setdefault((run, run_before), {})[distribution] = before, after
        names = ("cell", "before", "after", "commit", "commit_before", "reason")
        return [
            {**dict(zip(names, values, strict=True)), "since": _text(since), "versions": upgrades.get(runs, {})}
            for since, *values, runs in _rows(database, _TRANSITIONS)
        ]


def coverage(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """Return how many operators worked on each platform at each commit, the oldest first.

    Raises:
        UserError: the folders have no tables.
    """
    with opened(folders) as database:
        names = ("platform", "commit", "works", "operators")
        return [
            {**dict(zip(names, values, strict=True)), "started": _text(started)}
            for started, *values in _rows(database, _COVERAGE)
        ]


def past(folders: Sequence[Path]) -> Past:
    """Return what a report takes from the runs in folders of tables.

    The seconds of a case come from its latest run.

    Raises:
        UserError: the folders have no tables.
    """
    with opened(folders) as database:
        return Past(
            {lane: _starts(*moments) for lane, *moments in _rows(database, _LANES)},
            {case: seconds for case, seconds in _rows(database, _SECONDS) if math.isfinite(seconds)},
            [_measurement(*row) for row in _rows(database, _MEASUREMENTS)],
            database.problems,
        )


def _starts(*moments: datetime | None) -> dict[str, Any]:
    names = ("last_result", "last_ran", "last_compiled")
    return {name: moment.replace(tzinfo=UTC) for name, moment in zip(names, moments, strict=True) if moment}


def _measurement(cell: str, device: str, commit: str, last: datetime, *figures: Any) -> tuple[str, dict[str, Any]]:
    by_kind = {kind: dict(of_kind or ()) for kind, of_kind in zip(_FIGURES, figures, strict=True)}
    return cell, {"started": _text(last), "commit": commit[:100], "device": device[:400], **by_kind}


def _rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query over the past: a run that started in the future, by this machine's clock, is not."""
    now = datetime.now(UTC).replace(tzinfo=None) + CLOCKS_DIFFER
    return list(database.connection.execute(query, {"now": now}).fetchall())


def _text(moment: datetime | None) -> str:
    """Return a time as the facts of a job have it."""
    return f"{moment.isoformat(timespec='seconds')}Z" if moment else ""
