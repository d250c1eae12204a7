"""Rows of the judge -> the cells of the document, from sums over their cases: no case is an object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.base.versions import other_names
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import TIMED
from kernel_matrix.diagnosis import Diagnosis, Rules
from kernel_matrix.diagnosis.rule import harness_rules
from kernel_matrix.job.suite_canaries.asking import FACT, words_of
from kernel_matrix.job.suite_canaries.summing import kinds
from kernel_matrix.report.diagnoses import DIAGNOSED, Diagnoses
from kernel_matrix.report.document import (
    Accuracy,
    Artifact,
    Canaries,
    Cell,
    ComparingLine,
    Comparisons,
    Determinism,
    Noise,
    Number,
    Timed,
)
from kernel_matrix.report.made_from import MadeFrom
from kernel_matrix.results.comparisons import lines_of
from kernel_matrix.results.judged import Judged
from kernel_matrix.results.noise import Noise as Pooled
from kernel_matrix.results.noise import noise_of_cells, ratio_of
from kernel_matrix.results.repeat import Commands
from kernel_matrix.results.states import STATES, TRIED, UNTRIED, State
from kernel_matrix.store.database import rows
from kernel_matrix.store.record import Record


class _WorstCase(NamedTuple):
    """The first of the worst cases of a cell. Without a record its job is None, and its texts are empty.

    ``detail`` is empty too in a state that has no diagnosis: it may be long.
    """

    state: State
    reason: str
    job: int | None
    outcome: str
    stage: str
    message: str
    detail: str


@dataclass
class Sources:
    """The parts that the cells and the cases of a report are made with."""

    matrix: Matrix
    judged: Judged
    rules: Rules = harness_rules
    root: Path | None = None  # of the repository, whose locks are there

    @cached_property
    def diagnoses(self) -> Diagnoses:
        """The diagnoses that were made."""
        return Diagnoses(self.judged, self.rules)

    @cached_property
    def commands(self) -> Commands:
        """The commands that repeat results."""
        return Commands(self.matrix)

    @cached_property
    def places_of_jobs(self) -> dict[int, int]:
        """The places of the jobs in the document, by number. Equal jobs share one; a job without facts has none."""
        places: dict[frozenset[tuple[str, str]], int] = {}
        jobs = self.judged.jobs
        return {
            number: places.setdefault(frozenset(jobs[number].items()), len(places))
            for number in self.judged.jobs_in_order
            if jobs[number]
        }

    @cached_property
    def jobs(self) -> tuple[dict[str, str], ...]:
        """The jobs of the document, in the order in which its cells name them."""
        first = {place: number for number, place in reversed(self.places_of_jobs.items())}
        return tuple(dict(self.judged.jobs[first[place]]) for place in sorted(first))

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of the document in the order of the plan."""
        return _Cells(self).made()


class CellState(NamedTuple):
    """The state of a cell by its cases, and the worst of its cases.

    ``repeated`` is the number of the record that is repeated to see the state; None if no machine sent one.
    """

    state: State
    evidence: Evidence
    reason: str
    worst_case: int
    counts: dict[State, int]
    planned: int
    stale: str
    stale_cases: int
    repeated: int | None
    seconds: float
    injected: int
    caught: int
    emulated: int


def cell_states(judged: Judged) -> list[CellState]:
    """Return the states of all cells in the order of the plan."""
    states = {}
    for row in rows(judged.connection, _STATES):
        cell, state, level, reason, worst, counts, cases, stale, stale_cases, repeated, is_first, seconds, *found = row
        states[cell] = CellState(
            state=STATES[state - 1],
            evidence=EVIDENCE[level - 1] if level else "planned",
            reason=reason,
            worst_case=worst,
            counts={STATES[number - 1]: counts[number] for number in sorted(counts)},
            planned=cases,
            stale=stale,
            stale_cases=stale_cases,
            repeated=repeated if is_first else None,
            seconds=sum(seconds or ()),
            injected=int(found[0]),
            caught=int(found[1]),
            emulated=int(found[2]),
        )
    return [states[cell] for cell in range(len(judged.planned.cells))]


class _Cells:
    """Make the cells from sums over their cases."""

    def __init__(self, sources: Sources) -> None:
        self._sources, self._judged, self._matrix = sources, sources.judged, sources.matrix
        package, connection = sources.matrix.package, sources.judged.connection
        self._shown = [*package.distributions, package.name] if package.distributions else []
        self._versions: dict[tuple[int, ...], dict[str, tuple[str, ...]]] = {}
        self._environments, self._locks = MadeFrom(sources.matrix, sources.root), dict[tuple[object, ...], str]()
        with ThreadPoolExecutor(1) as pool:  # DuckDB answers the next question while objects are made of an answer
            states, accuracy = pool.submit(cell_states, self._judged), pool.submit(rows, connection, _ACCURACY)
            noise = pool.submit(noise_of_cells, connection)
            more = [
                pool.submit(rows, connection, question)
                for question in (_ARTIFACTS, _REPEATS, _TIMED, _JOBS, _CHECKS, _COMPARED)
            ]
            self._states = states.result()
            self._accuracy = {cell: _accuracy(*worst) for cell, *worst in accuracy.result()}
            self._noise = noise.result()
            artifacts, repeats, timed, jobs, checks, compared = (answer.result() for answer in more)
        self._checks = {cell: tuple(texts) for cell, texts in checks}
        self._comparisons = {cell: _comparisons(facts) for cell, facts in compared}
        self._artifacts = {cell: _artifact(*artifact) for cell, *artifact in artifacts}
        self._determinism = {cell: Determinism(repeats=int(n), differing=int(d)) for cell, n, d in repeats if n}
        self._timed: dict[int, list[Timed]] = {}
        for cell, number, *times in timed:
            name = self._judged.planned.names[int(self._judged.planned.named[number])].name
            self._timed.setdefault(cell, []).append(_times(name, *times))
        self._jobs = {cell: (tuple(of_cell), measured or ()) for cell, of_cell, measured in jobs}
        self._worst = self._worst_cases([cell.worst_case for cell in self._states])
        self._diagnosed = self._diagnoses()
        self._repeated = self._records([cell.repeated for cell in self._states if cell.repeated is not None])

    def made(self) -> tuple[Cell, ...]:
        """Return the cells in the order of the plan."""
        self._states.reverse()  # of many cells, their states and they together take much memory
        return tuple(self._cell(number, self._states.pop()) for number in range(len(self._states)))

    def _cell(self, number: int, cell: CellState) -> Cell:
        place, worst = self._judged.planned.cells[number], self._worst[cell.worst_case]
        places, (jobs, measured) = self._sources.places_of_jobs, self._jobs.get(number, ((), ()))
        repeated = self._repeated[cell.repeated] if cell.repeated is not None else None
        return Cell(
            id=place.id,
            package=place.package,
            platform=place.platform,
            target=place.target,
            toolchain=place.toolchain,
            backend=place.backend,
            op=place.op,
            direction=place.direction,
            state=cell.state,
            evidence=cell.evidence,
            stale=cell.stale,
            stale_cases=cell.stale_cases,
            emulated=cell.emulated,
            cases=cell.counts,
            planned=cell.planned,
            stage=worst.stage,
            reason=cell.reason,
            diagnosis=self._diagnosed.get(cell.worst_case),
            error=worst.message if cell.state == "known" else "",
            accuracy=self._accuracy.get(number),
            noise=_noise_of(self._noise.pop(number, {})),
            artifact=self._artifacts.get(number),
            canaries=Canaries(injected=cell.injected, caught=cell.caught) if cell.injected else None,
            determinism=self._determinism.get(number),
            checks=self._checks.get(number, ()),
            comparisons=self._comparisons.get(number),
            timed=tuple(self._timed.get(number, ())),
            versions=self._versions_of(jobs),
            lock=self._made_from(place.platform, place.toolchain, jobs),
            repeat=self._sources.commands.command(place.id, repeated),
            seconds=cell.seconds,
            measured=tuple(sorted({places[job] for job in measured if job in places})),
        )

    def _diagnoses(self) -> dict[int, Diagnosis]:
        """Return the diagnoses of the worst cases, by their numbers in the plan."""
        errors = {
            case: (worst.job, worst.outcome, worst.stage, worst.message, worst.detail, worst.reason)
            for case, worst in self._worst.items()
            if worst.job is not None and worst.state in DIAGNOSED
        }
        return dict(zip(errors, self._sources.diagnoses.of([*errors.values()]), strict=True))

    def _worst_cases(self, cases: list[int]) -> dict[int, _WorstCase]:
        """Return the worst cases of cells, by their numbers in the plan."""
        question = """
            SELECT planned, state, reason, job, coalesce(outcome, ''), coalesce(stage, ''), coalesce(message, ''),
                   CASE WHEN list_contains($2, state) THEN coalesce(detail, '') ELSE '' END
            FROM verdicts LEFT JOIN cases USING (record) WHERE planned IN (SELECT unnest($1::INTEGER[]))
        """
        found = rows(self._judged.connection, question, [cases, list(DIAGNOSED)])
        return {case: _WorstCase(*values) for case, *values in found}

    def _records(self, numbers: list[int]) -> dict[int, Record]:
        """Return records with nothing but what the command that repeats them depends on, by number."""
        question = """
            SELECT record, "case", job, facts['image'], facts['lock.sha256'] FROM cases
            WHERE record IN (SELECT unnest($1::BIGINT[]))
        """
        return {
            number: Record(
                case, "pass", facts={"image": image or "", "lock.sha256": lock or ""}, job=self._judged.jobs[job]
            )
            for number, case, job, image, lock in rows(self._judged.connection, question, [numbers])
        }

    def _made_from(self, platform: str, toolchain: str, jobs: tuple[int, ...]) -> str:
        key = platform, toolchain, jobs
        if key not in self._locks:
            named = (self._judged.jobs[job] for job in jobs)
            self._locks[key] = self._environments.of(platform, toolchain, named)
        return self._locks[key]

    def _versions_of(self, jobs: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
        if jobs not in self._versions:
            self._versions[jobs] = _versions((self._judged.jobs[job] for job in jobs), self._shown)
        return self._versions[jobs]


def _comparisons(facts: list[str]) -> Comparisons | None:
    """Return what the lines of a cell's tests see; None if none of them was asked."""
    lines = lines_of(facts)
    if not lines:
        return None
    seen, faults = kinds(lines)
    return Comparisons(
        seen=seen,
        faults=faults,
        cases=sum(bool(words_of(fact).get("lines")) for fact in facts),
        lines=tuple(
            ComparingLine(
                at=line.at,
                call=line.call,
                seen=line.seen,
                faults=len(line.tried),
                lets_through=tuple(line.unseen),
                allows=number(line.allows) if line.allows else None,
                at_least=line.more and math.isfinite(line.allows),
                budget=line.budget or None,
            )
            for line in lines
        ),
    )


def _accuracy(case: str, output: str, figure: str, error: float, limit: float, share: float, *rest: Any) -> Accuracy:
    """Return the error that came nearest to its limit; ``rest`` are the figures that the noise ratio follows from."""
    known = zip(("elements", "nan", "inf", "rel_fro", "floor_rel_fro"), rest, strict=True)
    ratio = ratio_of({name: value for name, value in known if value is not None})
    return Accuracy(
        case=case,
        output=output,
        figure=figure,
        error=number(error),
        limit=number(limit),
        share=number(share),
        noise_ratio=_known(ratio),
    )


def _artifact(kinds: Sequence[str], names: Sequence[str] | None, values: Sequence[float] | None) -> Artifact:
    largest = {name: number(value) for name, value in zip(names or (), values or (), strict=True)}
    return Artifact(kinds=tuple(kinds), largest=largest)


def _times(name: str, run: float, eager: float, ratio: float, rounds: float) -> Timed:
    run, eager, ratio = (float(f"{value:.5g}") for value in (run, eager, ratio))
    return Timed(case=name.removesuffix(TIMED), run=run, baseline=eager, ratio=ratio, rounds=int(rounds))


def _noise_of(cell: Mapping[str, Mapping[str, Pooled]]) -> dict[str, dict[str, Noise]]:
    return {dtype: {output: _noise(one) for output, one in outputs.items()} for dtype, outputs in cell.items()}


def _noise(pooled: Pooled) -> Noise:
    """Return the noise of one output as the document has it."""
    return Noise(
        ratio=_known(pooled.ratio),
        misrounded=_known(pooled.misrounded),
        floor_misrounded=_known(pooled.floor_misrounded),
        elements=int(pooled.elements),
        cases=pooled.cases,
        evidence=pooled.evidence,
    )


def _versions(jobs: Iterable[Mapping[str, str]], distributions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the versions that the jobs name, of Python and of these distributions; of all if none is given."""
    wanted = {name for one in distributions for name in other_names(one)}
    by_name: dict[str, set[str]] = {}
    for job in jobs:
        for key, value in job.items():
            name = key.removeprefix("version.")
            if key == "python" or (key != name and (not wanted or canonicalize_name(name) in wanted)):
                by_name.setdefault(name, set()).add(value)
    return {name: tuple(sorted(values)) for name, values in sorted(by_name.items())}


def number(value: float) -> Number:
    """Return a number that JSON can hold: with five digits, and Inf and NaN as words."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.5g}")


def _known(value: float | None) -> Number | None:
    return None if value is None else number(value)


def _share(figure: str) -> str:
    """Return the SQL for the share of the limit that an output's error has; null without a limit."""
    error, most = f"o.{figure}", f"o.limit_{figure}"
    share = f"CASE WHEN isfinite({error}) THEN {error} / {most} ELSE 'inf'::DOUBLE END"
    return f"CASE WHEN {error} IS NOT NULL AND coalesce({most}, 0) <> 0 AND NOT isnan({most}) THEN {share} END"


_NAMES = ", ".join(f"'{state}'" for state in STATES)
_LEVELS = ", ".join(f"'{level}'" for level in EVIDENCE)
_SILENT = ", ".join(f"'{state}'" for state in UNTRIED)
_TRIED = ", ".join(f"'{state}'" for state in TRIED)
_STATES = f"""
    WITH numbered AS (
        SELECT v.planned, p.cell, v.reason, v.stale, v.record, list_position([{_NAMES}], v.state) AS badness,
               list_position([{_LEVELS}], v.evidence) AS level, v.state NOT IN ({_SILENT}) AS counts, t.seconds,
               t.injected, t.caught, t.action = 'emulate' AND v.state IN ({_TRIED}) AS emulated,
               t.record IS NULL OR NOT coalesce(j.has_facts, false) AS nowhere
        FROM verdicts v JOIN planned p USING (planned)
        LEFT JOIN taken t USING (planned)
        LEFT JOIN (SELECT job, cardinality(facts) > 0 AS has_facts FROM jobs) j ON j.job = t.job
    ),
    ranked AS (  -- the larger, the worse and the earlier in the plan; of equals, one with a reason speaks for the cell
        SELECT *, (badness::BIGINT << 40) + planned AS place,
               (badness::BIGINT << 41) + ((reason = '')::BIGINT << 40) + planned AS speaks,
               (nowhere::BIGINT << 50) + (badness::BIGINT << 40) + planned AS to_repeat
        FROM numbered
    )
    SELECT cell, min(place) >> 40, min(level) FILTER (counts), arg_min(reason, speaks), min(place) & 1099511627775,
           histogram(badness), count(*), coalesce(arg_min(stale, planned) FILTER (stale <> ''), ''),
           count(*) FILTER (stale <> ''), arg_min(record, to_repeat) FILTER (record IS NOT NULL),
           min(to_repeat) FILTER (record IS NOT NULL) = min(to_repeat),
           list(seconds ORDER BY planned) FILTER (seconds IS NOT NULL),
           coalesce(sum(trunc(injected)), 0), coalesce(sum(trunc(caught)), 0), count(*) FILTER (emulated)
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
    SELECT w.cell, c."case", o.output, figure,
           CASE figure WHEN 'max_abs' THEN o.max_abs ELSE o.rel_fro END,
           CASE figure WHEN 'max_abs' THEN o.limit_max_abs ELSE o.limit_rel_fro END,
           share, o.elements, o.nan, o.inf, o.rel_fro, o.floor_rel_fro
    FROM worst w JOIN cases c USING (record) JOIN outputs o ON o.record = w.record AND o.place = w.place
"""
# DuckDB 2.0.0 fails to bind the macro where no case has a result: it takes the target for a constant null then.
OCCUPANCY = "occupancy_of(coalesce(split_part(c.\"case\", '/', 2), ''), c.figures)"
# The kinds of code by cell, and the largest of each resource in the order in which they come; the least occupancy.
_ARTIFACTS = f"""
    WITH figures AS (
        SELECT t.cell, t.planned, unnest(map_entries(c.figures)) AS entry,
               generate_subscripts(map_keys(c.figures), 1) AS place
        FROM taken t JOIN cases c USING (record) WHERE t.cell IN (SELECT cell FROM taken WHERE kind <> '')
    ),
    resources AS (
        SELECT cell, entry.key AS name, greatest(max(entry.value), 0) AS largest,
               min(planned::BIGINT << 16 | place) AS first
        FROM figures WHERE starts_with(entry.key, 'artifact.') GROUP BY ALL
        UNION ALL SELECT t.cell, 'artifact.occupancy', min({OCCUPANCY}) AS least, {2**62}
        FROM taken t JOIN cases c USING (record) GROUP BY t.cell HAVING least IS NOT NULL
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
# The jobs of a cell, and the jobs among them that have measured an output.
_JOBS = """
    SELECT cell, list_sort(list(DISTINCT job)), list(DISTINCT job) FILTER (record IN (SELECT record FROM outputs))
    FROM taken GROUP BY cell
"""
_REPEATS = """
    SELECT t.cell, coalesce(sum(c.figures['repeats']), 0), coalesce(sum(c.figures['repeats_differing']), 0)
    FROM taken t JOIN cases c USING (record) GROUP BY t.cell
"""
_CHECKS = """
    SELECT t.cell, list_sort(list(DISTINCT c.facts['checks']))
    FROM taken t JOIN cases c USING (record) WHERE coalesce(c.facts['checks'], '') <> '' GROUP BY t.cell
"""
_COMPARED = f"""
    SELECT t.cell, list(c.facts['{FACT}'] ORDER BY t.planned)
    FROM taken t JOIN cases c USING (record) WHERE coalesce(c.facts['{FACT}'], '') <> '' GROUP BY t.cell
"""
