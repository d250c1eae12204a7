"""Verdicts -> the figures of every cell, summed over its cases in the order of the plan."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.plan import Cell
from kernel_matrix.results.noise import Noise, ratio_of
from kernel_matrix.results.noise_sums import noise_of_cells, pooled
from kernel_matrix.results.planned import Planned
from kernel_matrix.results.states import STATES, Detection, State
from kernel_matrix.store.database import Connection, rows

_Answer = list[tuple[Any, ...]]


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


_JOBS = "SELECT cell, list_sort(list(DISTINCT job)) FROM taken GROUP BY cell"
_REPEATS = """
    SELECT t.cell, coalesce(sum(c.figures['repeats']), 0), coalesce(sum(c.figures['repeats_differing']), 0)
    FROM taken t JOIN cases c USING (record) GROUP BY t.cell
"""


def cells(connection: Connection, planned: Planned) -> list[CellFigures]:
    """Return the figures of all cells in the order of the plan, after :func:`..verdicts.judge`."""
    with ThreadPoolExecutor(1) as pool:  # DuckDB answers the next question while objects are made of an answer
        states, accuracy = pool.submit(rows, connection, _STATES), pool.submit(rows, connection, _ACCURACY)
        noise = pool.submit(pooled, connection)
        more = [pool.submit(rows, connection, question) for question in (_ARTIFACTS, _REPEATS, _TIMED, _JOBS)]
        figures = _states(states.result(), planned)
        for cell, worst in _worst(accuracy.result()):
            figures[cell].accuracy = worst
        for cell, of_cell in noise_of_cells(*noise.result()).items():
            figures[cell].noise = of_cell
        artifacts, repeated, times, measured = (answer.result() for answer in more)
    for cell, kinds, names, values in artifacts:
        figures[cell].kinds, figures[cell].largest = tuple(kinds), dict(zip(names or (), values or (), strict=True))
    for cell, repeats, differing in repeated:
        figures[cell].repeats = int(repeats), int(differing)
    for cell, timed in _timed(times, planned).items():
        figures[cell].timed = timed
    for cell, jobs in measured:
        figures[cell].jobs = tuple(jobs)
    return [figures[cell] for cell in range(len(planned.cells))]


def _states(answer: _Answer, planned: Planned) -> dict[int, CellFigures]:
    """Return every cell with its state: that of its worst case, and excluded only if all cases are."""
    figures = {}
    for row in answer:
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


def _worst(answer: _Answer) -> Iterator[tuple[int, Worst]]:
    """Yield the largest share of a limit by cell; of equal ones the first."""
    for cell, record, case, output, figure, error, most, share, *rest in answer:
        known = zip(("elements", "nan", "inf", "rel_fro", "floor_rel_fro"), rest, strict=True)
        ratio = ratio_of({name: value for name, value in known if value is not None})
        yield cell, Worst(record, case, output, figure, error, most, share, ratio)


def _timed(answer: _Answer, planned: Planned) -> dict[int, tuple[Time, ...]]:
    """Return the times of the cases that passed, by cell."""
    timed: dict[int, list[Any]] = {}
    for cell, number, *times in answer:
        timed.setdefault(cell, []).append(Time(planned.names[int(planned.named[number])].name, *times))
    return {cell: tuple(times) for cell, times in timed.items()}


_NAMES = ", ".join(f"'{state}'" for state in STATES)
_LEVELS = ", ".join(f"'{level}'" for level in EVIDENCE)
_STATES = f"""
    WITH numbered AS (
        SELECT v.planned, p.cell, v.reason, v.stale, v.record, list_position([{_NAMES}], v.state) AS badness,
               list_position([{_LEVELS}], v.evidence) AS level, v.state <> 'excluded' AS counts, t.seconds,
               t.injected, t.caught, t.record IS NULL OR NOT coalesce(j.has_facts, false) AS nowhere
        FROM verdicts v JOIN planned p USING (planned)
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
_ACCURACY = f"""
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
# The kinds of code by cell, and the largest of each resource in the order in which they first come.
_ARTIFACTS = """
    WITH figures AS (
        SELECT t.cell, t.planned, unnest(map_entries(c.figures)) AS entry,
               generate_subscripts(map_keys(c.figures), 1) AS place
        FROM taken t JOIN cases c USING (record) WHERE t.cell IN (SELECT cell FROM taken WHERE kind <> '')
    ),
    resources AS (
        SELECT cell, entry.key AS name, greatest(max(entry.value), 0) AS largest,
               min(planned::BIGINT << 16 | place) AS first
        FROM figures WHERE starts_with(entry.key, 'artifact.') GROUP BY ALL
    ),
    of_cells AS (
        SELECT cell, list(substring(name, 10) ORDER BY first) AS names, list(largest ORDER BY first) AS values
        FROM resources GROUP BY cell
    )
    SELECT k.cell, k.kinds, names, values
    FROM (SELECT cell, list_sort(list(DISTINCT kind)) AS kinds FROM taken WHERE kind <> '' GROUP BY cell) k
    LEFT JOIN of_cells USING (cell)
"""
_TIMED = """
    SELECT t.cell, t.planned, figures['time.run'], figures['time.eager'], figures['time.ratio'],
           figures['time.rounds']
    FROM taken t JOIN cases c USING (record)
    WHERE t.state = 'pass' AND figures['time.run'] IS NOT NULL AND figures['time.eager'] IS NOT NULL
      AND figures['time.ratio'] IS NOT NULL AND figures['time.rounds'] IS NOT NULL
    ORDER BY t.planned
"""
