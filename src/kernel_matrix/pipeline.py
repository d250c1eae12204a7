"""The stages load -> plan -> run, as functions of one loaded project; ``judging`` has those that come after a run.

A stage gets the values that the stages before it have returned, so that nothing is loaded or planned twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from kernel_matrix import diagnosis
from kernel_matrix.base import git
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.base.words import counted
from kernel_matrix.config import load as loading
from kernel_matrix.config import plan as planning
from kernel_matrix.config import suite
from kernel_matrix.config.load import MATRIX_FILE, Checked
from kernel_matrix.config.model import Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.config.selection import Selection, has_all, narrow, sampled
from kernel_matrix.diagnosis import Rule
from kernel_matrix.job.test_names import Key
from kernel_matrix.machines import row_plan_file
from kernel_matrix.machines.row_plan import RowPlan, choose
from kernel_matrix.machines.rows import estimate, only_shard
from kernel_matrix.results import history, kept_cases
from kernel_matrix.results.history import History
from kernel_matrix.run import schedule
from kernel_matrix.run import suite_tests as run_suite_tests
from kernel_matrix.run.settings import Progress, Settings
from kernel_matrix.store import tests as stored_tests
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import Machine


@dataclass(frozen=True)
class Project:
    """A loaded matrix.yaml: its content, the folder that it stands in, and the folder that everything is written to."""

    matrix: Matrix
    root: Path
    build: Path
    checked: Checked | None = None  # holds the plan of the full tier, which loading has made to check matrix.yaml
    file: Path | None = None  # matrix.yaml itself
    # What collecting the suite on this machine has found, by platform and toolchain: its tests, or how its cases end.
    tests: Mapping[tuple[str, str], tuple[Key, ...] | Record] = field(default_factory=dict)

    @cached_property  # planning needs no rules, and reading them takes longer than planning
    def rules(self) -> tuple[Rule, ...]:
        """The diagnosis rules of the package and of the harness."""
        return diagnosis.rules_of(self.matrix, self.root)

    @property
    def name(self) -> str:
        """The name of the matrix's file."""
        return self.file.name if self.file else MATRIX_FILE

    @property
    def options(self) -> list[str]:
        """The options with which a command in the present folder has the same file, and writes to the same folder."""
        file = self.file or self.root / MATRIX_FILE
        matrix = [] if file == Path(MATRIX_FILE).resolve() else ["--matrix", str(file)]
        return matrix if self.build == self.root / "build" else [*matrix, "--build", str(self.build)]

    @property
    def results(self) -> Path:
        """The folder of the result files of this machine's jobs."""
        return self.build / "results"

    @property
    def site(self) -> Path:
        """The folder of the dashboard."""
        return self.build / "site"

    def apart(self, *names: str, shares: Sequence[str] = ("envs",)) -> Project:
        """Return the project with a build folder of its own inside of this one, which shares some of its folders."""
        folder = self.build.joinpath(*names)
        folder.mkdir(parents=True, exist_ok=True)
        for name in shares:
            (self.build / name).mkdir(exist_ok=True)
            if not (folder / name).exists():
                (folder / name).symlink_to(self.build / name)
        return replace(self, build=folder)


@dataclass(frozen=True)
class Selected:
    """The plan of a tier, and the jobs of it that are asked for, with only the cases that are asked for."""

    plan: Plan
    jobs: tuple[Job, ...]
    row_plan: RowPlan | None = None
    earlier: History = field(default_factory=History)

    @property
    def excluded(self) -> bool:
        """True if the row plan says that the excluded cases are tried too."""
        return self.row_plan is not None and self.row_plan.excluded

    @property
    def asked(self) -> set[str] | None:
        """The ids of the cases that are asked for; None for all of the plan. A row plan itself says which count."""
        ids = {case.id for case in self.part.cases}
        return None if self.row_plan or len(ids) == len(self.plan.cases) else ids

    @property
    def part(self) -> Plan:
        """The plan with only the jobs that are asked for."""
        return replace(self.plan, jobs=self.jobs)


def load(path: Path, build: Path | None = None, folders: Sequence[Path] | None = ()) -> Project:
    """Read and check matrix.yaml; ``build`` is by default the folder ``build`` next to it.

    The results in ``folders``, by default those of this machine, say which tests the suite has. Without folders (None)
    none are known, as where they are collected first.

    Raises:
        UserError: the file cannot be used; the message has one line per fault.
    """
    root = path.parent.resolve()
    build = Path(build or root / "build").resolve()
    checked = loading.load_and_plan(path)
    project = Project(checked.matrix, root, build, checked, path.resolve())
    return project if folders is None else with_tests(project, folders)


def with_tests(project: Project, folders: Sequence[Path]) -> Project:
    """Return the project with the tests of its suite that some results are of, if its cases are such tests."""
    if not suite.is_suite(project.matrix):
        return project
    return _with_listed(project, stored_tests.read(folders or [project.results]))


def with_tests_of_run(project: Project) -> Project:
    """Return the project with the tests that a run, which goes on, has collected on this machine before its jobs."""
    if not suite.is_suite(project.matrix):
        return project
    listed = stored_tests.read([project.results])
    tests = {**listed.tests, **run_suite_tests.left_by_a_run(project.build)}
    return _with_listed(project, replace(listed, tests=tests))


def without_tests(project: Project) -> Project:
    """Return the project with one case in place of all tests of a lane, if its cases are the tests of a suite.

    Rows are planned so: nobody knows which tests the machine of a row will find.
    """
    return _with_listed(project, suite.Listed()) if suite.is_suite(project.matrix) else project


def _with_listed(project: Project, listed: suite.Listed) -> Project:
    matrix = suite.with_tests(project.matrix, listed)
    if not project.file:
        return replace(project, matrix=matrix, checked=None)
    checked = loading.load_and_plan(project.file, listed)
    return replace(project, matrix=checked.matrix, checked=checked)


def collect_tests(
    project: Project, selection: Selection, machine: Machine, settings: Settings, progress: Progress
) -> Project:
    """Return the project with the tests that its suite has now on this machine, if its cases are such tests.

    They are collected for the lanes that are asked for. The tests of others are those of their results; a row that has
    collected all of its tests asks for none.

    Raises:
        UserError: another run is at one of the jobs.
    """
    if not suite.is_suite(project.matrix):
        return project
    jobs = _to_collect(without_tests(project), selection)
    collected = run_suite_tests.collect_tests(project.matrix, jobs, machine, settings, progress)
    now = {job.id: tests for job in jobs if isinstance(tests := collected.get((job.platform, job.toolchain)), tuple)}
    has_all = selection.row is not None and len(now) == len(jobs)
    earlier = suite.Listed() if has_all else stored_tests.read([project.results])
    lost = {lane for lane in earlier.lost if (lane[0], lane[2]) not in collected}
    listed = suite.Listed({**earlier.tests, **now}, frozenset(lost))
    return replace(_with_listed(project, listed), tests=collected)


def _to_collect(project: Project, selection: Selection) -> list[Job]:
    """Return the jobs of the lanes that a selection asks for, whichever of their tests it names."""
    jobs = select(project, replace(selection, cases=(), changed_since=None, shard=None, sample=None)).jobs
    lanes = {tuple(name.split("/")[:3]) for name in selection.cases}
    if not lanes or any("*" in name for name in selection.cases):
        return [*jobs]
    return [
        job
        for job in jobs
        if any((case.cell.platform, case.cell.target, case.cell.toolchain) in lanes for case in job.cases)
    ]


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
    quick = plan(project, "quick")
    return quick if has_all(quick, selection.cases) else plan(project, "full")


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
    if selection.cases and suite.is_suite(project.matrix):
        cases = suite.with_new_tests(selection.cases, suite.ids_by_lane(plan(project, "full").cases))
        selection = replace(selection, cases=tuple(cases))
    planned = plan_for(project, selection)
    row_plan = row_plan_file.from_json(selection.row_plan, planned) if selection.row_plan else None
    earlier = history.read(selection.history)
    jobs = row_plan.row(selection.row).jobs if row_plan and selection.row else planned.jobs
    jobs = tuple(narrow(project.matrix, planned, jobs, selection))
    if selection.changed_since:
        paths = git.changed_files(project.root, selection.changed_since)
        jobs = tuple(choose(project.matrix, jobs, paths)[0])
    if selection.sample:
        jobs = tuple(sampled(jobs, selection.sample))
    if shard := selection.shard:
        jobs = only_shard(jobs, estimate(project.matrix, planned.cases, earlier.seconds), shard)
    if not jobs:
        raise UserError("no job is left: the options exclude each other. Ask for less at once.")
    return Selected(planned, jobs, row_plan, earlier)


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
            count = kept_cases.keep(settings.results, job.id, planned.get(job.id, {}), {case.id for case in job.cases})
            if count:
                progress.job(job.id, f"of other cases {counted(count, 'earlier result')} kept")


def run_selected(
    project: Project, selected: Selected, machine: Machine, settings: Settings, progress: Progress
) -> list[Path]:
    """Run the selected jobs, keep the earlier results of their other cases, and return the result files.

    Raises:
        UserError: another run is at one of the jobs.
    """
    keep_the_rest(project, selected, settings, progress)
    return schedule.run(project.matrix, selected.jobs, machine, replace(settings, tests=project.tests), progress)
