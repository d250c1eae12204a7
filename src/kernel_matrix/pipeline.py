"""load -> plan -> run -> collect -> compare -> report: the stages as functions over one loaded project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix import diagnosis
from kernel_matrix.config import load as loading
from kernel_matrix.config import plan as planning
from kernel_matrix.config.model import Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.diagnosis import Rule
from kernel_matrix.machines import job_status
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan, planned_by
from kernel_matrix.report import site
from kernel_matrix.report.document import Document, document
from kernel_matrix.results import collect as collecting
from kernel_matrix.results import compare as comparing
from kernel_matrix.results import difference
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import Comparison
from kernel_matrix.results.history import History
from kernel_matrix.results.validation import Asked
from kernel_matrix.run import schedule
from kernel_matrix.run.schedule import Progress, Settings
from kernel_matrix.vendors.machine import Machine

_PROBE = "probe/"  # begins the ids of the records of probes; all other records are of cases


@dataclass(frozen=True)
class Project:
    """A loaded matrix.yaml: its content, the folder that it stands in, and the folder that everything is written to."""

    matrix: Matrix
    root: Path
    build: Path
    rules: tuple[Rule, ...]

    @property
    def results(self) -> Path:
        """The folder of the result files of this machine's jobs."""
        return self.build / "results"

    @property
    def site(self) -> Path:
        """The folder of the dashboard."""
        return self.build / "site"


def load(path: Path, build: Path | None = None) -> Project:
    """Read and check matrix.yaml; ``build`` is the folder ``build`` beside it by default.

    Raises:
        UserError: the file cannot be used; the message has one line per fault.
    """
    matrix, root = loading.load(path), path.parent.resolve()
    return Project(matrix, root, Path(build or root / "build").resolve(), diagnosis.rules())


def plan(project: Project, tier: Tier) -> Plan:
    """Return every case of the tier, whether or not some machine can run it."""
    return planning.plan(project.matrix, tier)


def run(project: Project, jobs: Sequence[Job], machine: Machine, settings: Settings, progress: Progress) -> list[Path]:
    """Run the jobs on this machine and return their result files, in the order of the jobs.

    Raises:
        UserError: another run is at one of the jobs in the same build folder.
    """
    return schedule.run(project.matrix, jobs, machine, settings, progress)


def collect(project: Project, folders: Sequence[Path], row_plan: RowPlan | None = None) -> Collected:
    """Read the result files of the folders; with ``row_plan`` a file must be of one of its jobs.

    Raises:
        UserError: a folder does not exist.
    """
    return collecting.collect(folders, _asked(project.matrix, row_plan) if row_plan else None)


def compare(
    project: Project,
    planned: Plan,
    collected: Collected,
    *,
    row_plan: RowPlan | None = None,
    statuses: Mapping[str, JobStatus] | None = None,
    earlier: History | None = None,
) -> Comparison:
    """Return the state of every planned case.

    With ``row_plan`` only its cases count, and a case without a result gets the reason from the status of its row's
    job (``statuses``, by row) and from ``earlier`` reports.
    """
    records = [record for record in collected.records if not record.case.startswith(_PROBE)]
    if row_plan:
        minutes = project.matrix.ci.queue_minutes
        planned = planned_by(row_plan, planned)
        records = job_status.only_compiled(row_plan, records)
        records += job_status.absences(
            row_plan, collected.records, statuses or {}, earlier or History(), collected.refused, minutes
        )
    return comparing.compare(planned, records)


def report(
    project: Project,
    comparison: Comparison,
    collected: Collected,
    *,
    earlier: History | None = None,
    against: Path | None = None,
    left_out: int = 0,
    toolchains: Document | None = None,
) -> Document:
    """Write the dashboard and return its document.

    ``against`` is the site of an earlier run: the summary then says what differs from it. ``left_out`` cases were not
    asked for; ``toolchains`` is what probes and sweeps have shown.

    Raises:
        UserError: ``against`` holds no report.
    """
    changes = None
    if against:
        cells = document(project.matrix, comparison, collected)["cells"]
        changes = difference.difference(difference.read(against), cells)
    return site.report(
        project.matrix,
        comparison,
        collected,
        project.site,
        earlier=earlier,
        difference=changes,
        left_out=left_out,
        toolchains=toolchains,
    )


def only(planned: Plan, jobs: Sequence[Job]) -> Plan:
    """Return the plan with only these jobs."""
    return replace(planned, jobs=tuple(jobs))


def _asked(matrix: Matrix, row_plan: RowPlan) -> dict[str, Asked]:
    """Return what each job of the row plan was asked for."""
    return {
        job.id: Asked(
            row.id, {case.id for case in job.cases}, row.own or matrix.platforms[row.platform].device == "cpu"
        )
        for row in row_plan.rows
        for job in row.jobs
    }
