"""Results as columns -> Document: its cells from the figures of columns, without an object for each case."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import TIMED
from kernel_matrix.diagnosis import NOT_KNOWN, Diagnosis, Rule, diagnose
from kernel_matrix.report import figures, from_cells
from kernel_matrix.report.agreement import agreement_report
from kernel_matrix.report.bench import bench_results
from kernel_matrix.report.cells import JobList, shown
from kernel_matrix.report.document import Accuracy, Artifact, Canaries, Cell, Determinism, Document, Timed
from kernel_matrix.report.from_cells import Facts
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results.columns.cells import CellFigures, Time, Worst
from kernel_matrix.results.columns.judged import Judged
from kernel_matrix.results.columns.sql import rows
from kernel_matrix.results.compare import State
from kernel_matrix.results.history import History
from kernel_matrix.results.record import Record
from kernel_matrix.results.repeat import Commands

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
    def jobs(self) -> JobList:
        """The jobs of the document, in the order in which its cells name them."""
        jobs = JobList()
        for job in self.judged.jobs_in_order:
            jobs.place(self.judged.jobs[job])
        return jobs

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


def document(
    sources: Sources,
    *,
    earlier: History | None = None,
    left_out: int = 0,
    toolchains: Toolchains | None = None,
    run_notes: RunNotes | None = None,
    more_notes: tuple[str, ...] = (),
    now: datetime | None = None,
) -> Document:
    """Return everything that is known of the results, apart from the cases of the cells.

    ``more_notes`` are sentences beside those that follow from the results. For the others see
    :func:`kernel_matrix.report.from_cells.document`.
    """
    return from_cells.document(
        sources.matrix,
        sources.cells,
        _facts(sources, more_notes),
        earlier=earlier,
        left_out=left_out,
        toolchains=toolchains,
        run_notes=run_notes,
        now=now,
    )


def _facts(sources: Sources, more_notes: tuple[str, ...]) -> Facts:
    judged = sources.judged
    ended = (state.sentence for state in judged.ended)
    return Facts(
        package=judged.package,
        tier=judged.tier,
        commits=judged.commits,
        devices=judged.devices,
        unplanned=judged.unplanned,
        with_results=judged.lanes_with_results,
        stale=judged.stale,
        undiagnosed=_undiagnosed(sources),
        problems=judged.loaded.broken,
        notes=(*judged.notes, *judged.loaded.samples.note, *ended, *judged.not_taken, *more_notes),
        agreement=agreement_report(judged.sampled()),
        jobs=tuple(dict(job) for job in sources.jobs.jobs),
        bench=bench_results(judged.benchmark(), judged.presence),
    )


class _Cells:
    """Make the cells from the figures of columns."""

    def __init__(self, sources: Sources, figures: Sequence[CellFigures]) -> None:
        """``figures`` are those of all cells in the order of the plan."""
        self._sources, self._judged, self._matrix = sources, sources.judged, sources.matrix
        self._shown = shown(sources.matrix)
        self._versions: dict[tuple[int, ...], dict[str, tuple[str, ...]]] = {}
        self._worst = self._worst_cases([cell.worst_case for cell in figures])
        self._repeated = self._records([cell.repeated for cell in figures if cell.repeated is not None])
        self._measured = self._jobs_that_measured()

    def cell(self, number: int, cell: CellFigures) -> Cell:
        """Return the cell with a number, of these figures."""
        place, worst = cell.cell, self._worst[cell.worst_case]
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
                dtype: {output: figures.noise_of(pooled) for output, pooled in outputs.items()}
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
            measured=self._places(self._measured.get(number, ())),
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

    def _places(self, jobs: tuple[int, ...]) -> tuple[int, ...]:
        """Return the places of jobs in the document."""
        known = self._judged.jobs
        return tuple(sorted({p for job in jobs if (p := self._sources.jobs.place(known[job])) is not None}))

    def _versions_of(self, jobs: tuple[int, ...]) -> dict[str, tuple[str, ...]]:
        if jobs not in self._versions:
            self._versions[jobs] = figures.versions((self._judged.jobs[job] for job in jobs), self._shown)
        return self._versions[jobs]


def _accuracy(worst: Worst | None) -> Accuracy | None:
    if worst is None:
        return None
    return Accuracy(
        case=worst.case,
        output=worst.output,
        figure=worst.figure,
        error=figures.number(worst.error),
        limit=figures.number(worst.limit),
        share=figures.number(worst.share),
        noise_ratio=None if worst.noise_ratio is None else figures.number(worst.noise_ratio),
    )


def _canaries(cell: CellFigures) -> Canaries | None:
    counts = cell.canaries
    return Canaries(injected=counts.injected, caught=counts.caught) if counts.injected else None


def _determinism(cell: CellFigures) -> Determinism | None:
    repeats, differing = cell.repeats
    return Determinism(repeats=repeats, differing=differing) if repeats else None


def _timed(time: Time) -> Timed:
    times = figures.times_of(time.run, time.eager, time.ratio, time.rounds)
    return Timed(case=time.case.removesuffix(TIMED), **asdict(times))


def _artifact(cell: CellFigures) -> Artifact | None:
    if not cell.kinds:
        return None
    largest = {name: figures.number(value) for name, value in cell.largest.items()}
    return Artifact(kinds=cell.kinds, largest=largest)


def _undiagnosed(sources: Sources) -> Counter[tuple[str, str]]:
    """Return the errors that no rule knows, each with the number of its cases. They show which rules to add."""
    question = """
        SELECT job, outcome, stage, message, detail, reason, count(*)
        FROM verdicts JOIN planned USING (planned) JOIN cases USING (record) WHERE state = 'error'
        GROUP BY ALL ORDER BY min((cell::BIGINT << 32) + planned)
    """
    counted: Counter[tuple[str, str]] = Counter()
    for job, outcome, stage, message, detail, reason, count in rows(sources.judged.connection, question):
        text = (message if message != reason else "") or reason
        if text and not sources.diagnoses.of(job, outcome, stage, message, detail, reason).rule:
            counted[stage, text.splitlines()[0]] += count
    return counted
