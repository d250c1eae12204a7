"""Verdicts -> the figures of every cell, summed over its cases in the order of the plan.

They are those that :mod:`kernel_matrix.report.cells` makes of one cell's records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.plan import Cell
from kernel_matrix.results.canaries import Detection
from kernel_matrix.results.columns.planned import Planned
from kernel_matrix.results.columns.pooling import noise_of_cells
from kernel_matrix.results.columns.sql import Connection, enter, rows, temporary
from kernel_matrix.results.compare import STATES, State
from kernel_matrix.results.noise import Noise


@dataclass(frozen=True)
class Worst:
    """The error of a cell that came nearest to its limit, or went furthest beyond it."""

    record: int
    case: str
    output: str
    figure: str
    error: float
    limit: float
    share: float
    noise_ratio: float | None


@dataclass(frozen=True)
class Time:
    """The times of a case that passed."""

    case: str
    run: float
    eager: float
    ratio: float
    rounds: float


@dataclass
class CellFigures:
    """A cell and what its cases come to.

    ``worst_case`` is the number of the first of its worst cases, and ``repeated`` that of the record that is repeated
    to see the cell's state; None if no machine sent one. ``jobs`` are the numbers of the jobs of its records.
    ``repeats`` are the runs that were repeated, and those of them that gave other bits.
    """

    cell: Cell
    state: State
    evidence: Evidence
    counts: dict[State, int]
    planned: int
    stale: str
    stale_cases: int
    worst_case: int
    reason: str
    repeated: int | None
    seconds: float
    canaries: Detection
    accuracy: Worst | None = None
    noise: dict[str, dict[str, Noise]] = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    largest: dict[str, float] = field(default_factory=dict)
    timed: tuple[Time, ...] = ()
    jobs: tuple[int, ...] = ()
    repeats: tuple[int, int] = (0, 0)


_REPEATS = """
    SELECT t.cell, coalesce(sum(c.figures['repeats']), 0), coalesce(sum(c.figures['repeats_differing']), 0)
    FROM taken t JOIN cases c USING (record) GROUP BY t.cell
"""


def cells(connection: Connection, planned: Planned, wanted: Sequence[int] | None = None) -> list[CellFigures]:
    """Return the figures of some cells, by default of all in the order of the plan, after :func:`..verdicts.judge`."""
    wanted = range(len(planned.cells)) if wanted is None else wanted
    enter(connection, "summed_cells", pa.schema({"cell": pa.int32()}), {"cell": wanted})
    _take_records(connection)
    figures = _states(connection, planned)
    for cell, worst in _accuracy(connection).items():
        figures[cell].accuracy = worst
    for cell, noise in noise_of_cells(connection).items():
        figures[cell].noise = noise
    for cell, kinds, largest in _artifacts(connection):
        figures[cell].kinds, figures[cell].largest = kinds, largest
    for cell, repeats, differing in rows(connection, _REPEATS):
        figures[cell].repeats = int(repeats), int(differing)
    for cell, timed in _timed(connection, planned).items():
        figures[cell].timed = timed
    for cell, jobs in rows(connection, "SELECT cell, list_sort(list(DISTINCT job)) FROM taken GROUP BY cell"):
        figures[cell].jobs = tuple(jobs)
    return [figures[cell] for cell in wanted]


def _take_records(connection: Connection) -> None:
    """Make ``taken``: the records that the verdicts of these cells name, with what is summed up of each."""
    temporary(
        connection,
        "taken",
        """
        SELECT v.planned, p.cell, v.state, c.record, c.job, c.outcome, c.action, c.seconds, c.kind, c.injected, c.caught
        FROM verdicts v JOIN planned p USING (planned) JOIN cases c USING (record) SEMI JOIN summed_cells USING (cell)
        """,
    )


def _states(connection: Connection, planned: Planned) -> dict[int, CellFigures]:
    """Return every cell with its state: that of its worst case, and excluded only if all cases are."""
    figures = {}
    for row in rows(connection, _STATES):
        cell, state, level, reason, worst, counts, cases, stale, stale_cases, repeated, is_first, seconds, *found = row
        figures[cell] = CellFigures(
            cell=planned.cells[cell],
            state=STATES[state - 1] if state else "excluded",
            evidence=EVIDENCE[level - 1] if level else "planned",
            counts={STATES[number - 1]: counts[number] for number in sorted(counts)},
            planned=cases,
            stale=stale,
            stale_cases=stale_cases,
            worst_case=worst,
            reason=reason,
            repeated=repeated if is_first else None,
            seconds=sum(seconds or ()),
            canaries=Detection(int(found[0]), int(found[1])),
        )
    return figures


def _share(figure: str) -> str:
    """Return the SQL for the share of the limit that an output's error has; null without a limit."""
    error, most = f"o.{figure}", f"o.limit_{figure}"
    share = f"CASE WHEN isfinite({error}) THEN {error} / {most} ELSE 'inf'::DOUBLE END"
    return f"CASE WHEN {error} IS NOT NULL AND coalesce({most}, 0) <> 0 AND NOT isnan({most}) THEN {share} END"


def _accuracy(connection: Connection) -> dict[int, Worst]:
    """Return the largest share of a limit by cell; of equal ones the first."""
    question = f"""
        WITH shares AS (
            SELECT t.cell, t.planned, t.record, o.place, {_share("max_abs")} AS max_abs, {_share("rel_fro")} AS rel_fro
            FROM taken t JOIN outputs o USING (record)
        ),
        largest AS (SELECT cell, max(greatest(max_abs, rel_fro)) AS share FROM shares GROUP BY cell),
        worst AS (
            SELECT cell, planned, record, place, share,
                   CASE WHEN max_abs = share THEN 'max_abs' ELSE 'rel_fro' END AS figure
            FROM shares JOIN largest USING (cell) WHERE share IN (max_abs, rel_fro)
            QUALIFY row_number() OVER (PARTITION BY cell ORDER BY planned, place) = 1
        )
        SELECT w.cell, w.record, c."case", o.output, figure,
               CASE figure WHEN 'max_abs' THEN o.max_abs ELSE o.rel_fro END,
               CASE figure WHEN 'max_abs' THEN o.limit_max_abs ELSE o.limit_rel_fro END,
               share, o.elements, o.nan, o.inf, o.rel_fro, o.floor_rel_fro
        FROM worst w JOIN cases c USING (record) JOIN outputs o ON o.record = w.record AND o.place = w.place
    """
    worst = {}
    for cell, record, case, output, figure, error, most, share, *rest in rows(connection, question):
        known = zip(("elements", "nan", "inf", "rel_fro", "floor_rel_fro"), rest, strict=True)
        ratio = _ratio({name: value for name, value in known if value is not None})
        worst[cell] = Worst(record, case, output, figure, error, most, share, ratio)
    return worst


def _ratio(figures: Mapping[str, float]) -> float | None:
    """Return the noise ratio of one output in one case."""
    if "rel_fro" not in figures or "floor_rel_fro" not in figures:
        return None
    noise = Noise()
    noise.add(figures)
    return noise.ratio


def _artifacts(connection: Connection) -> Iterable[tuple[int, tuple[str, ...], dict[str, float]]]:
    """Yield the kinds of code by cell, and the largest of each resource in the order in which they first come."""
    question = """
        WITH figures AS (
            SELECT t.cell, t.planned, unnest(map_entries(c.figures)) AS entry,
                   generate_subscripts(map_keys(c.figures), 1) AS place
            FROM taken t JOIN cases c USING (record) WHERE t.cell IN (SELECT cell FROM taken WHERE kind <> '')
        ),
        resources AS (
            SELECT cell, entry.key[10:] AS name, greatest(max(entry.value), 0) AS largest,
                   min(planned::BIGINT << 16 | place) AS first
            FROM figures WHERE starts_with(entry.key, 'artifact.') GROUP BY ALL
        ),
        of_cells AS (
            SELECT cell, list(name ORDER BY first) AS names, list(largest ORDER BY first) AS values
            FROM resources GROUP BY cell
        )
        SELECT k.cell, k.kinds, names, values
        FROM (SELECT cell, list_sort(list(DISTINCT kind)) AS kinds FROM taken WHERE kind <> '' GROUP BY cell) k
        LEFT JOIN of_cells USING (cell)
    """
    for cell, kinds, names, values in rows(connection, question):
        yield cell, tuple(kinds), dict(zip(names or (), values or (), strict=True))


def _timed(connection: Connection, planned: Planned) -> dict[int, tuple[Time, ...]]:
    """Return the times of the cases that passed, by cell."""
    question = """
        SELECT t.cell, t.planned, figures['time.run'], figures['time.eager'], figures['time.ratio'],
               figures['time.rounds']
        FROM taken t JOIN cases c USING (record)
        WHERE t.state = 'pass' AND figures['time.run'] IS NOT NULL AND figures['time.eager'] IS NOT NULL
          AND figures['time.ratio'] IS NOT NULL AND figures['time.rounds'] IS NOT NULL
        ORDER BY t.planned
    """
    timed: dict[int, list[Any]] = {}
    for cell, number, *times in rows(connection, question):
        timed.setdefault(cell, []).append(Time(planned.names[planned.named[number]].name, *times))
    return {cell: tuple(times) for cell, times in timed.items()}


_NAMES = ", ".join(f"'{state}'" for state in STATES)
_LEVELS = ", ".join(f"'{level}'" for level in EVIDENCE)
_STATES = f"""
    WITH numbered AS (
        SELECT v.planned, p.cell, v.reason, v.stale, v.record, list_position([{_NAMES}], v.state) AS badness,
               list_position([{_LEVELS}], v.evidence) AS level, v.state <> 'excluded' AS counts, t.seconds,
               t.injected, t.caught, t.record IS NULL OR NOT coalesce(j.has_facts, false) AS nowhere
        FROM verdicts v JOIN planned p USING (planned) SEMI JOIN summed_cells USING (cell)
        LEFT JOIN taken t USING (planned)
        LEFT JOIN (SELECT job, cardinality(facts) > 0 AS has_facts FROM jobs) j ON j.job = t.job
    ),
    ranked AS (  -- the larger, the worse and the earlier in the plan
        SELECT *, (badness::BIGINT << 40) + planned AS place,
               (nowhere::BIGINT << 50) + (badness::BIGINT << 40) + planned AS to_repeat
        FROM numbered
    )
    SELECT cell, min(place) FILTER (counts) >> 40, min(level) FILTER (counts),
           coalesce(arg_min(reason, place) FILTER (counts), arg_min(reason, place)),
           coalesce(min(place) FILTER (counts), min(place)) & 1099511627775,
           histogram(badness), count(*), coalesce(arg_min(stale, planned) FILTER (stale <> ''), ''),
           count(*) FILTER (stale <> ''), arg_min(record, to_repeat) FILTER (record IS NOT NULL),
           min(to_repeat) FILTER (record IS NOT NULL) = min(to_repeat),
           list(seconds ORDER BY planned) FILTER (seconds IS NOT NULL),
           coalesce(sum(trunc(injected)), 0), coalesce(sum(trunc(caught)), 0)
    FROM ranked GROUP BY cell
"""
