"""Rows of the judge -> the cells of the document, from sums over their cases: no case is an object."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import TIMED
from kernel_matrix.diagnosis import NOT_KNOWN, Diagnosis, Rule, diagnose
from kernel_matrix.report.document import Accuracy, Artifact, Canaries, Cell, Determinism, Noise, Number, Timed
from kernel_matrix.results.cells import CellFigures, Time, Worst
from kernel_matrix.results.judged import Judged
from kernel_matrix.results.noise import Noise as Pooled
from kernel_matrix.results.repeat import Commands
from kernel_matrix.results.states import State
from kernel_matrix.store.database import rows
from kernel_matrix.store.record import Record

DIAGNOSED: tuple[State, ...] = ("fail", "error", "known")


@dataclass
class Diagnoses:
    """The cause and the remedy of errors; equal errors of one job are looked up once."""

    judged: Judged
    rules: tuple[Rule, ...] | None
    _known: dict[tuple[Any, ...], Diagnosis] = field(default_factory=dict)

    def of(self, job: int, outcome: str, stage: str, message: str, detail: str, reason: str) -> Diagnosis:
        """Return the diagnosis of a record with a verdict's reason."""
        # A record that says pass and is not believed has no error of its own: the verdict says what is against it.
        passed = outcome == "pass"
        key = (job, "", reason) if passed else (job, stage or outcome, message, detail)
        if key not in self._known:
            text = reason if passed else f"{message}\n{detail}"
            made = diagnose(text, key[1], self.judged.jobs[job], self.rules)
            self._known[key] = made or Diagnosis("", NOT_KNOWN, "", "")
        return self._known[key]


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
    rules: tuple[Rule, ...] | None

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
        figures = self.judged.cells()
        made = _Cells(self, figures)
        cells: list[Cell] = []
        figures.reverse()  # of many cells, figures and cells together take much memory
        while figures:
            cells.append(made.cell(len(cells), figures.pop()))
        return tuple(cells)


class _Cells:
    """Make the cells from the figures of columns."""

    def __init__(self, sources: Sources, figures: Sequence[CellFigures]) -> None:
        """``figures`` are those of all cells in the order of the plan."""
        self._sources, self._judged, self._matrix = sources, sources.judged, sources.matrix
        package = sources.matrix.package
        self._shown = [*package.distributions, package.name] if package.distributions else []
        self._versions: dict[tuple[int, ...], dict[str, tuple[str, ...]]] = {}
        self._worst = self._worst_cases([cell.worst_case for cell in figures])
        self._repeated = self._records([cell.repeated for cell in figures if cell.repeated is not None])
        self._measured = self._jobs_that_measured()

    def cell(self, number: int, cell: CellFigures) -> Cell:
        """Return the cell with a number, of these figures."""
        place, worst = cell.cell, self._worst[cell.worst_case]
        places = self._sources.places_of_jobs
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
            cases=cell.counts,
            planned=cell.planned,
            stage=worst.stage,
            reason=cell.reason,
            diagnosis=self._diagnosis(worst),
            error=worst.message if cell.state == "known" else "",
            accuracy=_accuracy(cell.accuracy),
            noise={
                dtype: {output: _noise(pooled) for output, pooled in outputs.items()}
                for dtype, outputs in cell.noise.items()
            },
            artifact=_artifact(cell),
            canaries=_canaries(cell),
            determinism=_determinism(cell),
            timed=tuple(map(_timed, cell.timed)),
            versions=self._versions_of(cell.jobs),
            lock=self._matrix.lock_of(place.platform, place.toolchain),
            repeat=self._sources.commands.command(place.id, repeated),
            seconds=cell.seconds,
            measured=tuple(sorted({places[job] for job in self._measured.get(number, ()) if job in places})),
        )

    def _diagnosis(self, worst: _WorstCase) -> Diagnosis | None:
        if worst.job is None or worst.state not in DIAGNOSED:
            return None
        error = worst.outcome, worst.stage, worst.message, worst.detail
        return self._sources.diagnoses.of(worst.job, *error, worst.reason)

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

    def _jobs_that_measured(self) -> dict[int, tuple[int, ...]]:
        """Return the numbers of the jobs that have measured an output of a cell, by the number of the cell."""
        question = """
            SELECT cell, list(DISTINCT job) FROM taken WHERE record IN (SELECT record FROM outputs) GROUP BY cell
        """
        return {cell: tuple(jobs) for cell, jobs in rows(self._judged.connection, question)}

    def _versions_of(self, jobs: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
        if jobs not in self._versions:
            self._versions[jobs] = _versions((self._judged.jobs[job] for job in jobs), self._shown)
        return self._versions[jobs]


def _accuracy(worst: Worst | None) -> Accuracy | None:
    if worst is None:
        return None
    return Accuracy(
        case=worst.case,
        output=worst.output,
        figure=worst.figure,
        error=number(worst.error),
        limit=number(worst.limit),
        share=number(worst.share),
        noise_ratio=_known(worst.noise_ratio),
    )


def _canaries(cell: CellFigures) -> Canaries | None:
    counts = cell.canaries
    return Canaries(injected=counts.injected, caught=counts.caught) if counts.injected else None


def _determinism(cell: CellFigures) -> Determinism | None:
    repeats, differing = cell.repeats
    return Determinism(repeats=repeats, differing=differing) if repeats else None


def _timed(time: Time) -> Timed:
    run, baseline, ratio = (float(f"{value:.5g}") for value in (time.run, time.eager, time.ratio))
    case = time.case.removesuffix(TIMED)
    return Timed(case=case, run=run, baseline=baseline, ratio=ratio, rounds=int(time.rounds))


def _artifact(cell: CellFigures) -> Artifact | None:
    if not cell.kinds:
        return None
    largest = {name: number(value) for name, value in cell.largest.items()}
    return Artifact(kinds=cell.kinds, largest=largest)


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
    wanted = {canonicalize_name(name) for name in distributions}
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
