"""A failure as a report that a toolchain's maintainer can use: reduced, repeatable, with versions and since when."""

from __future__ import annotations

import json
import platform as system
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.config.plan import Case
from kernel_matrix.diagnosis import diagnose
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.attempts import kept_sweeps, read
from kernel_matrix.probes.expected import Judged, judge_all
from kernel_matrix.probes.probe import select_probes
from kernel_matrix.probes.probe_toolchains import environments, interpreter_of
from kernel_matrix.probes.probing import run_probes
from kernel_matrix.run.executors import InstallError, UnavailableError
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record, versions_of
from kernel_matrix.tools.toolchains.reduction import Reduction, Rerun, reduce_case
from kernel_matrix.vendors.machine import Machine


@dataclass(frozen=True)
class IssueReport:
    """The parts of a report. All texts are Markdown."""

    title: str
    subject: str
    program: str
    expected: str
    since: str
    tried: Sequence[str]
    platform: str
    record: Record

    def markdown(self, project: Project) -> str:
        """Return the whole report."""
        record = self.record
        output = record.detail or record.message
        names = set(map(canonicalize_name, project.matrix.package.distributions))
        versions = [
            f"- {name} {version}"
            for name, version in sorted(versions_of(record.job).items())
            if canonicalize_name(name) in names
        ]
        diagnosis = diagnose(record.text, record.stage, record.job, project.rules)
        known = [f"Known here as: {diagnosis.cause} Done about it: {diagnosis.remedy}"] if diagnosis else []
        notes = [*self.tried, *known]
        return "\n".join(
            [
                f"# {self.title}", "", self.subject, "",
                "## To repeat it", "", self.program, "",
                "## What comes out", "", f"```\n{output.strip()[-6000:] or record.message}\n```", "",
                "## What should", "", self.expected, "",
                "## Versions", "", f"- Python {record.job.get('python', '')}", *versions,
                f"- platform: {self.platform}", "",
                "## Since when", "", self.since, "",
                "## What was tried", "", *(f"- {note}" for note in notes or ["nothing yet"]), "",
            ]
        )  # fmt: skip


def report_failing_probe(project: Project, probe: str, toolchain: str | None, machine: Machine, executor: str) -> str:
    """Run a probe in the named toolchain, or in all, and return the report on the first failure.

    Raises:
        UserError: there is no such probe or toolchain, an environment cannot be made, or the probe fails in none.
    """
    matrix = project.matrix
    probes = select_probes(matrix, project.root, [probe])
    if toolchain and toolchain not in matrix.toolchains:
        raise unknown("--toolchain", "toolchain", toolchain, matrix.toolchains)
    chosen = [toolchain] if toolchain else list(matrix.toolchains)
    for environment, name in environments(matrix, chosen).items():
        try:
            with interpreter_of(project, name, executor, lambda _: None) as interpreter:
                records = run_probes(probes, environment, interpreter, machine, matrix.package.environment)
        except (InstallError, UnavailableError) as error:
            raise UserError(f"{environment}: its environment cannot be had.\n{error}") from None
        for judged in judge_all(probes, records, [environment]):
            if judged.record and judged.record.outcome == "error":
                folder = project.root / matrix.package.sweeps if matrix.package.sweeps else None
                since = since_when(probe, kept_sweeps(folder))
                return of_probe(judged, judged.record, since, f"{system.platform()}, no GPU used").markdown(project)
    raise UserError(f"{probe}: it fails in none of {', '.join(chosen)}, so there is nothing to report.")


def report_failing_case(
    project: Project, identity: str, folders: Sequence[Path], machine: Machine, executor: str
) -> str:
    """Find the failure of a case or cell in the results, reduce it, and return the report.

    Raises:
        UserError: the full plan has no such case or cell, or no result says that it fails.
    """
    collected = collect(folders or [project.results])
    failed = {record.case: record for record in collected.records if record.outcome in ("fail", "error")}
    cases = [case for case in pipeline.plan(project, "full").cases if identity in (case.id, case.cell.id)]
    if not cases:
        raise UserError(f"{identity}: neither a probe nor a cell or case of the full plan.")
    failing = next((case for case in cases if case.id in failed), None)
    if failing is None:
        raise UserError(f"{identity}: no result says that it fails. Run it first, or name its --results.")
    if program := _reproducer(failed[failing.id]):
        return of_launch(failing, failed[failing.id], program).markdown(project)
    reduction = reduce_case(Rerun(project, machine, failing, executor), failed[failing.id])
    return of_case(failing, reduction, project.matrix.package.suite).markdown(project)


def of_probe(judged: Judged, record: Record, since: str, platform: str) -> IssueReport:
    """Return the report on a probe that fails."""
    probe = judged.probe
    return IssueReport(
        title=f"{probe.family}: {_headline(record)}",
        subject=probe.asks + " It does not.",
        program=f"```python\n{probe.program.strip()}\n```",
        expected=probe.means,
        since=since,
        tried=[f"What we take it to be: {probe.truth}"],
        platform=platform,
        record=record,
    )


def of_case(case: Case, reduction: Reduction, suite: str) -> IssueReport:
    """Return the report on a case that fails, reduced."""
    cell, record = case.cell, reduction.record
    axes = ", ".join(f"{name} {value}" for name, value in reduction.axes.items())
    command = f"python -m pytest -p kernel_matrix.job.plugin --job job.json {suite}"
    specification = reduction.specification
    return IssueReport(
        title=f"{cell.backend}: {cell.op} {cell.direction} on {cell.target}: {_headline(record)}",
        subject=f"{cell.op} ({cell.direction}) with {axes}; first met as `{case.id}`.",
        program=f"`{command}`, with this as job.json:\n\n```json\n{specification}\n```"
        if specification
        else "Not reduced.",
        expected="Every number inside its error budget, compared with a float64 golden.",
        since="not bisected: `kernel-matrix toolchains bisect PACKAGE --good V --bad V --case CELL`",
        tried=reduction.tried,
        platform=f"{cell.platform}, {cell.target}, {record.job.get('device', '')}",
        record=record,
    )


def of_launch(case: Case, record: Record, program: str) -> IssueReport:
    """Return the report on a launch that does not compile, with the program that repeats it."""
    cell = case.cell
    return IssueReport(
        title=f"{_compiler(cell.backend, record)}: {record.facts.get('kernel', cell.op)} on {cell.target}: "
        f"{_headline(record)}",
        subject=f"One launch of the kernel, compiled without a device; first met as `{case.id}`.",
        program=f"```{record.facts.get('reproducer.language', 'python')}\n{program}```",
        expected="It compiles.",
        since="not bisected",
        tried=[],
        platform=f"{cell.platform}, {cell.target}, no GPU used",
        record=record,
    )


def _compiler(backend: str, record: Record) -> str:
    """Return the compiler of a launch with its version."""
    return record.job.get("compiler") or f"{backend} {versions_of(record.job).get(backend, '')}".strip()


def _reproducer(record: Record) -> str:
    """Return the program that repeats a launch by itself; empty if the record has none."""
    try:
        return str(json.loads(record.facts.get("reproducer", '""')))
    except ValueError:
        return ""


def since_when(probe: str, sweeps: Sequence[Path]) -> str:
    """Return the versions in which the probe fails and works, of the first kept sweep that asked it.

    Raises:
        UserError: a file is not a sweep.
    """
    for path in sweeps:
        sweep = read(path)
        outcomes = {
            attempt.version: "works" if attempt.probes[probe].outcome == "pass" else "fails"
            for attempt in sorted(sweep.attempts, key=lambda attempt: Version(attempt.version))
            if probe in attempt.probes and not attempt.pins and attempt.probes[probe].outcome in ("pass", "error")
        }
        if outcomes:
            return f"{sweep.package}: " + ", ".join(f"{version} {outcome}" for version, outcome in outcomes.items())
    return f"not swept: `kernel-matrix toolchains sweep PACKAGE --versions 0.. --probe {probe}`"


def _headline(record: Record) -> str:
    lines = [line for line in record.message.splitlines() if line.strip()]
    return (lines[-1] if len(lines) > 1 and len(lines[0]) < 8 else lines[0] if lines else record.stage)[:120]
