"""The stages load -> plan -> run -> judge -> report, as functions of one loaded project.

The command line and the lab call these. A stage gets the values that the stages before it have returned, so that
nothing is loaded or planned twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix.base import git
from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.config import plan as planning
from kernel_matrix.config import suite
from kernel_matrix.config.former import FormerError, read_former
from kernel_matrix.config.loosened import Loosening
from kernel_matrix.config.loosened import loosened as limits_loosened
from kernel_matrix.config.model import Event, Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.config.rule_state import RuleState
from kernel_matrix.config.selection import Selection, narrow, plan_with
from kernel_matrix.judging import judged as judged  # the pipeline's own as well, as is the next
from kernel_matrix.judging import rule_states as rule_states
from kernel_matrix.judging import tables_checked_ahead as tables_checked_ahead
from kernel_matrix.machines import row_plan_file
from kernel_matrix.machines.row_plan import RowPlan, asked_of, make_row_plan
from kernel_matrix.machines.rows import estimate, only_shard
from kernel_matrix.machines.selection import choose
from kernel_matrix.project import Project as Project  # these four are the pipeline's own as well
from kernel_matrix.project import Selected as Selected
from kernel_matrix.project import load as load
from kernel_matrix.project import with_tests as with_tests
from kernel_matrix.report.measurements import measurements
from kernel_matrix.report.side import Side, is_address, is_site, read_address, read_site
from kernel_matrix.reporting import Report as Report
from kernel_matrix.reporting import audit as audit
from kernel_matrix.reporting import report as report
from kernel_matrix.results import history, repeat, rest
from kernel_matrix.results.history import History
from kernel_matrix.run import schedule
from kernel_matrix.run import suite_tests as run_suite_tests
from kernel_matrix.run.schedule import Progress, Settings
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import Bounds
from kernel_matrix.vendors.machine import Machine

if TYPE_CHECKING:
    from kernel_matrix.results.side_by_side import CasePair
    from kernel_matrix.store.load import Collected


def collect_tests(
    project: Project, selection: Selection, machine: Machine, settings: Settings, progress: Progress
) -> Project:
    """Return the project with the tests that its suite has now on this machine, if its cases are such tests.

    Raises:
        UserError: another run is at one of the jobs.
    """
    if not suite.is_suite(project.matrix):
        return project
    jobs = [
        job
        for job in planning.plan(suite.with_tests(project.matrix, suite.SuiteTests()), "full").jobs
        if (not selection.platforms or job.platform in selection.platforms)
        and (not selection.toolchains or job.toolchain in selection.toolchains)
    ]
    collected = run_suite_tests.collect_tests(project.matrix, jobs, machine, settings, progress)
    suite.write(project.results, suite.read([project.results]).together(suite.SuiteTests(collected)))
    return with_tests(project, [])


def plan(project: Project, tier: Tier) -> Plan:
    """Return every case of the tier, whether or not some machine can run it."""
    checked = project.checked
    if checked and checked.matrix is project.matrix:  # a changed matrix has another plan
        if tier == "full":
            return checked.full
        if _tiers_are_the_same(project.matrix):
            return replace(checked.full, tier=tier)
    return planning.plan(project.matrix, tier)


def _tiers_are_the_same(matrix: Matrix) -> bool:
    """Return whether the quick tier has all cases of the full one."""
    entries = (entry for platform in matrix.platforms.values() for entry in platform.entries)
    return not any("full" in op.cases for op in matrix.ops.values()) and not any(entry.quick for entry in entries)


def plan_for(project: Project, selection: Selection) -> Plan:
    """Return the plan of the tier that is asked for, else of the row plan's tier, else of the tier that has the cases.

    Raises:
        UserError: the file of the row plan cannot be used.
    """
    tier = selection.tier or (row_plan_file.tier_of(selection.row_plan) if selection.row_plan else None)
    if tier or not selection.cases:  # of these, loading may have made the plan already
        return plan(project, tier or "quick")
    return plan_with(project.matrix, selection.cases)


def plan_of(project: Project, file: Path) -> Plan:
    """Return the plan of only the cases whose ids the file has, one a line.

    Raises:
        UserError: the file cannot be read, has no id, or names a case that matrix.yaml does not have.
    """
    try:
        names = tuple(file.read_text(encoding="utf-8").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: {error}. Make it with: `kernel-matrix run --write-cases FILE`") from None
    selection = Selection(cases=tuple(filter(None, names)))
    if not selection.cases:
        raise UserError(f"{file}: it names no case. Make it with: `kernel-matrix run --write-cases FILE`")
    planned = plan_for(project, selection)
    return replace(planned, jobs=tuple(narrow(project.matrix, planned, planned.jobs, selection)))


def select(project: Project, selection: Selection) -> Selected:
    """Return the jobs that are asked for.

    Raises:
        UserError: a name is not in the plan, a file or folder cannot be used, or nothing is left.
    """
    if (selection.row_plan is None) != (selection.row is None):
        raise UserError("--plan FILE and --row ID belong together: the file holds the plan, the row is a part of it.")
    planned = plan_for(project, selection)
    row_plan = row_plan_file.from_json(selection.row_plan, planned) if selection.row_plan else None
    earlier = history.read(selection.history)
    jobs = row_plan.row(selection.row).jobs if row_plan and selection.row else planned.jobs
    jobs = tuple(narrow(project.matrix, planned, jobs, selection))
    if selection.changed_since:
        jobs = choose(project.matrix, jobs, git.changed_files(project.root, selection.changed_since)).jobs
    if shard := selection.shard:
        jobs = only_shard(jobs, estimate(project.matrix, planned.cases, earlier.seconds), shard)
    if not jobs:
        raise UserError("no job is left: the options exclude each other. Ask for less at once.")
    return Selected(planned, jobs, row_plan, earlier)


def plan_rows(
    project: Project,
    *,
    event: str | None = None,
    tier: Tier | None = None,
    changed_since: str | None = None,
    hosted_only: bool = False,
    earlier: Path | None = None,
) -> RowPlan:
    """Return the rows that an event asks for; ``earlier`` is a folder of results, for the time that cases take.

    Raises:
        UserError: matrix.yaml has no such event, or git does not know the reference.
    """
    events = project.matrix.ci.events
    if event and event not in events:
        raise unknown("--event", "event in matrix.yaml's ci.events", event, events)
    planned = plan(project, tier or events.get(event or "", Event()).tier)
    paths = git.changed_files(project.root, changed_since) if changed_since else None
    measured = history.read(earlier).seconds
    return make_row_plan(project.matrix, planned, measured, event=event or "", paths=paths, hosted_only=hosted_only)


def loosened(project: Project, since: str) -> list[Loosening]:
    """Return what matrix.yaml allows now and did not where this branch left a commit, or that nobody can tell.

    Raises:
        UserError: git does not know the commit.
    """
    name = project.name
    text = git.former_text(project.root, since, name)
    if text is None:
        return [Loosening(name, "the file is new, with all that it allows", "-", "-")]
    try:
        before = read_former(text, project.matrix)
        former = planning.plan(before, "full")
    except (FormerError, KeyError) as error:
        return [Loosening(name, f"the former file cannot be compared, look at the change yourself: {error}", "-", "-")]
    return limits_loosened(before, former, project.matrix, plan(project, "full"))


def run(
    project: Project,
    jobs: Sequence[Job],
    machine: Machine,
    settings: Settings,
    progress: Progress,
    on_result: Callable[[Path], object] | None = None,
    beside: Sequence[Callable[[], object]] = (),
) -> list[Path]:
    """Run the jobs on this machine and return their result files, in the order of the jobs.

    ``on_result`` is called with each result file as soon as it and its tables are written, from the thread of its job.
    ``beside`` is other work that is done when a worker has no more jobs, and before the jobs that time something.

    Raises:
        UserError: another run is at one of the jobs in the same build folder.
    """
    return schedule.run(project.matrix, jobs, machine, settings, progress, on_result, beside)


def keep_the_rest(project: Project, selected: Selected, settings: Settings, progress: Progress) -> None:
    """Keep the earlier results of cases that are planned and that the selected jobs do not run.

    With a row plan nothing is kept: its results are those that it asks for. Where another run is at a job, nothing is
    done, since running the job ends with that reason.
    """
    if selected.row_plan:
        return
    planned = {job.id: {case.id: case for case in job.cases} for job in plan(project, "full").jobs}
    for job in selected.jobs:
        with suppress(BusyError), locked(settings.build / "jobs" / f"{job.id}.lock"):
            count = rest.keep(settings.results, job.id, planned.get(job.id, {}), {case.id for case in job.cases})
            if count:
                progress.job(job.id, f"{count} results of other cases stay from earlier runs")


def collect(
    project: Project, folders: Sequence[Path], row_plan: RowPlan | None = None, bounds: Bounds | None = None
) -> Collected:
    """Read the result files of the folders; with ``row_plan`` a file must be of one of its jobs.

    All results are objects in memory, so the files have bounds together too, unless others are given.

    Raises:
        UserError: a folder does not exist.
    """
    from kernel_matrix.store.load import collect as read  # DuckDB and pyarrow take long to import

    return read(folders, asked_of(project.matrix, row_plan) if row_plan else None, bounds)


def rule_states_of(project: Project, folders: Sequence[Path], now: datetime | None = None) -> list[RuleState]:
    """Return the state of every expectation and exclusion, by the results of the folders or of this machine if any.

    Raises:
        UserError: a folder does not exist.
    """
    folders = folders or [folder for folder in [project.results] if folder.exists()]
    now = now or clock()
    with judged(project, plan(project, "full"), folders, now=now) as results:
        return rule_states(project, results.states_of_expected(), now.date())


def clock() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


def run_selected(
    project: Project, selected: Selected, machine: Machine, settings: Settings, progress: Progress
) -> list[Path]:
    """Run the selected jobs, keep the earlier results of their other cases, and return the result files.

    Raises:
        UserError: another run is at one of the jobs.
    """
    keep_the_rest(project, selected, settings, progress)
    return run(project, selected.jobs, machine, settings, progress)


def side(project: Project, planned: Plan, name: str, earlier: History | None = None) -> Side:
    """Read one of two runs: a site, a folder of results, or the address of a published compat.json.

    The results of a folder are judged by the plan. Whether they are stale does not matter: a run is compared with
    another run, and not with the present source. ``earlier`` is the history that a folder of results does not have.

    Raises:
        UserError: it does not exist, or cannot be used.
    """
    from kernel_matrix.report import cells, make_document  # DuckDB and pyarrow take long to import

    if is_address(name):
        return read_address(name)
    if is_site(Path(name)):
        return read_site(Path(name))
    with judged(project, planned, [Path(name)], asks_present=False) as results:
        if broken := results.loaded.broken:
            raise UserError(f"{name}: {' '.join(broken[0].split())} A run is compared only as a whole.")
        if not results.results:
            raise UserError(f"{name}: it holds no results. Name a site, a folder of results, or the address of a site.")
        sources = cells.Sources(project.matrix, results, project.rules)
        document = make_document.document(sources, earlier=earlier)
        past = history.with_run(earlier.measurements if earlier else {}, measurements(document))
        return Side(name, document, past, tuple(record for _, record in results.sampled() if record.samples))


def result_to_repeat(project: Project, tier: Tier, identity: str, folders: Sequence[Path]) -> Record:
    """Return the result that decides the state of a case or cell in the results of the folders.

    Raises:
        UserError: the plan has no such case or cell, or the folders hold no result of it.
    """
    planned = plan(project, tier)
    cases = repeat.cases_named(planned, identity)
    with judged(project, planned, folders, asks_present=False) as results:
        of_cases = results.narrowed(cases)
        return repeat.result_to_repeat(of_cases.verdicts(), of_cases.tried(), identity)


def compare_cells(
    project: Project, tier: Tier, one: str, other: str, folders: Sequence[Path]
) -> tuple[list[CasePair], tuple[str, ...]]:
    """Return the cases of two cells side by side, and a sentence for each file of results that was not taken.

    Raises:
        UserError: the plan has no such cell, the folders hold no result of one, or they have nothing in common.
    """
    from kernel_matrix.results.side_by_side import side_by_side  # NumPy takes long to import, and few commands need it

    planned = plan(project, tier)
    cases = [case for identity in (one, other) for case in repeat.cases_named(planned, identity)]
    with judged(project, planned, folders, asks_present=False) as results:
        of_cases = results.narrowed(cases)
        tried = {record.case: record for record in reversed(of_cases.tried())}  # the first counts where none decides
        deciding = {verdict.case.id: verdict.record for verdict in of_cases.verdicts() if verdict.record}
        sampled = {case.id: record for case, record in of_cases.sampled() if record.samples}
        return side_by_side(planned, {**tried, **deciding, **sampled}, one, other), results.loaded.broken
