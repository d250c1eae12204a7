"""Verdicts -> the cells of the document, with their cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import NamedTuple

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import TIMED
from kernel_matrix.diagnosis import NOT_KNOWN, Diagnosis, Rule, diagnose
from kernel_matrix.report import figures
from kernel_matrix.report.document import CaseResult, Cell, Timed
from kernel_matrix.results.compare import CellVerdict, Verdict
from kernel_matrix.results.noise import by_dtype
from kernel_matrix.results.record import Record
from kernel_matrix.results.repeat import Commands, worst_result


class JobList:
    """The jobs of all results, each once. Records of one file share one object, so most look-ups go by its id."""

    def __init__(self) -> None:
        self.jobs: list[Mapping[str, str]] = []
        self._by_identity: dict[int, int] = {}
        self._by_content: dict[frozenset[tuple[str, str]], int] = {}

    def place(self, job: Mapping[str, str]) -> int | None:
        """Return the place of a job in the list, and add it if it is new; None for a result without a job."""
        if not job:
            return None
        if id(job) not in self._by_identity:
            content = frozenset(job.items())
            if content not in self._by_content:
                self._by_content[content] = len(self.jobs)
                self.jobs.append(job)
            self._by_identity[id(job)] = self._by_content[content]
        return self._by_identity[id(job)]


class Sources(NamedTuple):
    """The values that every cell is made with, beside its verdict."""

    matrix: Matrix
    rules: tuple[Rule, ...] | None
    jobs: JobList
    commands: Commands


def make_cell(sources: Sources, verdict: CellVerdict) -> Cell:
    """Return the cell of a verdict. Its reason and its diagnosis are those of the first of its worst cases."""
    matrix, place = sources.matrix, verdict.cell
    worst = next((v for v in verdict.cases if v.state == verdict.state), verdict.cases[0])
    records = [v.record for v in verdict.cases if v.record]
    results = tuple(_result(sources, v) for v in verdict.cases)
    return Cell(
        id=place.id,
        package=place.package,
        platform=place.platform,
        target=place.target,
        toolchain=place.toolchain,
        backend=place.backend,
        op=place.op,
        direction=place.direction,
        state=verdict.state,
        evidence=verdict.evidence,
        stale=verdict.stale,
        stale_cases=sum(bool(v.stale) for v in verdict.cases),
        cases=verdict.counts,
        planned=len(verdict.cases),
        stage=worst.record.stage if worst.record else "",
        reason=worst.reason,
        diagnosis=_diagnosis(sources, worst),
        error=worst.record.message if worst.record and verdict.state == "known" else "",
        accuracy=figures.accuracy(records),
        noise=figures.noise(by_dtype(verdict.cases)),
        artifact=figures.artifact(records),
        canaries=figures.canaries(records),
        determinism=figures.determinism(records),
        timed=tuple(timed for v in verdict.cases if (timed := _timed(v))),
        versions=figures.versions({id(r.job): r.job for r in records}.values(), shown(matrix)),
        lock=matrix.lock_of(place.platform, place.toolchain),
        repeat=sources.commands.command(place.id, worst_result(verdict.cases).record),
        seconds=sum((result.seconds for result in results), 0.0),
        measured=tuple(sorted({r.job for r in results if r.job is not None and r.outputs})),
        results=results,
    )


def _result(sources: Sources, verdict: Verdict) -> CaseResult:
    record = verdict.record or Record(verdict.case.id, "missing")
    return CaseResult(
        name=verdict.case.name,
        state=verdict.state,
        evidence=verdict.evidence,
        reason=verdict.reason,
        stale=verdict.stale,
        stage=record.stage,
        action=record.action,
        message=record.message if record.message != verdict.reason else "",
        detail=record.detail,
        diagnosis=_diagnosis(sources, verdict),
        seconds=record.seconds,
        attempts=record.attempts,
        outputs=figures.outputs(record),
        artifact=figures.resources(record),
        times=figures.times(record),
        facts=dict(record.facts),
        job=sources.jobs.place(record.job),
        repeat=sources.commands.command(verdict.case.id, verdict.record),
    )


def shown(matrix: Matrix) -> list[str]:
    """Return the distributions whose versions are shown; an empty list stands for all."""
    shown = matrix.package.distributions
    return [*shown, matrix.package.name] if shown else []


def _diagnosis(sources: Sources, verdict: Verdict) -> Diagnosis | None:
    """Return the cause and the remedy of what went wrong; None for a case where nothing did."""
    record = verdict.record
    if verdict.state not in ("fail", "error", "known") or record is None:
        return None
    # A record that says pass and is not believed has no error of its own: the verdict says what speaks against it.
    text, stage = (verdict.reason, "") if record.outcome == "pass" else (record.text, record.stage or record.outcome)
    return diagnose(text, stage, record.job, sources.rules) or Diagnosis("", NOT_KNOWN, "", "")


def _timed(verdict: Verdict) -> Timed | None:
    """Return the times of a case that passed; None if it did not, or was not timed."""
    if verdict.record is None or verdict.state != "pass":
        return None
    times = figures.times(verdict.record)
    return Timed(case=verdict.case.name.removesuffix(TIMED), **asdict(times)) if times else None
