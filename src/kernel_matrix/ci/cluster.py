"""Submit the rows of the plan to an engine, follow their jobs, and show the words of the report."""

from __future__ import annotations

import argparse
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from kernel_matrix.base.commands import command, here, line_here
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.locking import BusyError, locked
from kernel_matrix.base.words import counted
from kernel_matrix.ci.cluster_options import ENGINES
from kernel_matrix.ci.engines import REPORT, AwayError, Engine, engine_named, state
from kernel_matrix.ci.engines.batches import batches
from kernel_matrix.ci.engines.state import ClusterRun
from kernel_matrix.ci.event_plan import EventPlan, plan_rows
from kernel_matrix.ci.follow import Follower, goes_on
from kernel_matrix.ci.services import command_of, started
from kernel_matrix.cli.options import load_project, selection_of
from kernel_matrix.machines import row_plan_file
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.pipeline import Project
from kernel_matrix.store import names

_AWAY_SECONDS, _PAUSE = 1800.0, 15.0  # for which a controller may be away, and between two questions
_END_SECONDS = 60.0  # in which rows end that were cancelled
Say = Callable[[str], object]  # prints a line
_STATUSES = "jobs.json"


def main(options: argparse.Namespace, say: Say) -> int:
    """Submit, unless what was submitted before still runs; follow it, and return the exit status of the report.

    Raises:
        UserError: they want to submit and do not say where, or the cluster lacks something.
    """
    if options.detach and not options.on:
        raise UserError(f"--detach: say where the rows are submitted: --on {' or '.join(ENGINES)}.")
    project = load_project(options)
    if options.attach or options.cancel:
        return _former(options, project, say)
    _demand_that_copies_come(project, follows=not options.detach)
    engine = engine_named(options.on)
    with _alone(project):
        planned = plan_on(project, engine, options)
        run = _going_on(engine, project, planned.rows, say) or _submitted(engine, project, planned, options, say)
    if options.detach:
        say(here("follow it: `kernel-matrix matrix --attach`; end it: `kernel-matrix matrix --cancel`"))
        return 0
    try:
        return Follower(engine, project, run, say).follow()
    except KeyboardInterrupt:
        _cancel(engine, run)
        say(f"cancelled all jobs of km-{run.id}. Rows that ran write what had ended into {project.results}")
        raise


def _demand_that_copies_come(project: Project, *, follows: bool) -> None:
    """Raise a UserError where nodes do not see the checkout, and would not get it, or not all that a row reads."""
    if not (project.matrix.ci.slurm and project.matrix.ci.slurm.disk):
        return
    if not follows:
        raise UserError(
            "ci.slurm.disk: `kernel-matrix matrix --on slurm` brings the copies, and has to follow the rows: it takes "
            "no --detach, and no script does it."
        )
    if not all(folder.is_relative_to(Path.cwd()) for folder in (project.root, project.build)):
        raise UserError("ci.slurm.disk: nodes get a copy of the present folder, and it lacks matrix.yaml or the build.")


def script(options: argparse.Namespace, project: Project, say: Say) -> str:
    """Return the script that submits the rows by hand. The plan and the names of the jobs are written for it.

    Raises:
        UserError: the cluster lacks something, or the rows wait or run already.
    """
    engine = engine_named(options.on)
    _demand_that_copies_come(project, follows=False)
    with _alone(project):
        planned = plan_on(project, engine, options)
        _demand_rows(planned.rows)
        run = make_run(options.on, project, planned, history=options.history)
        try:
            run, changed = fitted(engine, run)
        except AwayError as error:
            changed = (f"nothing was checked: {error}",)
        else:
            if _going_on(engine, project, planned.rows, say):
                raise UserError("the rows of this plan wait or run already.")
        for sentence in changed:
            say(sentence)
        keep(project, run, planned.rows)
    return engine.script(run)


def plan_on(project: Project, engine: Engine, options: argparse.Namespace) -> EventPlan:
    """Return the rows that the options ask for, for the machines of an engine."""
    given = vars(options)
    selection = selection_of(options)
    history = options.history or (project.site if project.site.is_dir() else None)
    return plan_rows(
        project,
        event=given.get("event"),
        tier=options.tier,
        changed_since=options.changed_since,
        earlier=history,
        labels=given.get("labels", "[]"),
        machines=engine.machines(project.matrix),
        selection=replace(selection, tier=None, changed_since=None, history=None, row_plan=None),
    )


def make_run(
    engine_name: str, project: Project, planned: EventPlan, more: Sequence[str] = (), history: Path | None = None
) -> ClusterRun:
    """Return what is to be submitted for some rows; ``more`` are further options of each row's run."""
    folder, options = state.folder_of(project.build), project.options
    plan = str(state.plan_of(project.build))
    statuses = ["ci", "jobs", "--on", engine_name, "--plan", plan, "--write", str(folder / _STATUSES)]
    report = ["report", "--plan", plan, "--statuses", str(folder / _STATUSES)]
    report += [*(["--history", str(history.absolute())] if history else []), str(project.results)]
    slurm = project.matrix.ci.slurm
    made = batches(project.matrix, planned.rows, planned.known)
    in_images = {row for batch in made if batch.ask.image for row in batch.rows}
    return ClusterRun(
        engine=engine_name,
        id=secrets.token_hex(4),
        created=time.time(),
        plan=_digest(planned.rows),
        queue_minutes=slurm.queue_minutes if slurm else 1440,
        setup=slurm.setup if slurm else "",
        disk=slurm.disk if slurm else "",
        batches=made,
        row_commands={
            row.id: command_of(row, plan, ["--gathered", *options, *more], installed=row.id in in_images)
            for row in started(planned.rows)
        },
        jobs=tuple(job.id for row in started(planned.rows) for job in row.jobs),
        report_commands=tuple(line_here(command(words), options) for words in (statuses, report)),
        root=str(Path.cwd()),
        folder=str(folder),
        folders=_outermost(Path.cwd(), project.root, project.build),
    )


def _outermost(*folders: Path) -> tuple[str, ...]:
    """Return the folders that are in no other one of them."""
    found = sorted({folder.absolute() for folder in folders})
    return tuple(str(one) for one in found if not any(one.is_relative_to(other) for other in found if other != one))


def statuses(project: Project, engine_name: str) -> list[JobStatus]:
    """Return what became of the rows of the run that was submitted last, when the cluster answers.

    Raises:
        UserError: nothing was submitted, or the cluster has not answered for long.
    """
    run = state.read(project.build)
    if run is None or run.engine != engine_name:
        raise UserError(f"nothing was submitted to {engine_name} from {project.build}.")
    engine, until = engine_named(engine_name), time.monotonic() + _AWAY_SECONDS
    while True:
        try:
            found = engine.poll(run)
            break
        except AwayError:
            if time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
    return [_of_ended(engine, run, status) for status in found if status.row != REPORT]


def _of_ended(engine: Engine, run: ClusterRun, status: JobStatus) -> JobStatus:
    """Return the status of a row; of one that was ended because it waited in vain, that it never started.

    One that had a node before has lost it: that is no row without a machine.
    """
    if status.row not in run.ended:
        return status
    conclusion = "lost" if engine.log(run, status.row).exists() else "never_started"
    return JobStatus(row=status.row, status="completed", conclusion=conclusion, why=run.ended[status.row])


def fitted(engine: Engine, run: ClusterRun) -> tuple[ClusterRun, tuple[str, ...]]:
    """Return a run as the cluster can have it, and sentences about what was changed.

    Raises:
        UserError: the cluster lacks something, or does not answer.
    """
    found = engine.fit(run.batches)
    if found.lacking:
        raise UserError("\n".join((*found.lacking, "Nothing was submitted.")))
    return run.model_copy(update={"batches": found.batches}), found.changed


def keep(project: Project, run: ClusterRun, row_plan: RowPlan) -> None:
    """Write the plan and the file of a run, by which its jobs are found."""
    plan = state.plan_of(project.build)
    plan.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(plan, row_plan_file.to_json(row_plan))
    state.write(project.build, run)


def _submitted(
    engine: Engine, project: Project, planned: EventPlan, options: argparse.Namespace, say: Say
) -> ClusterRun:
    """Submit the rows. Earlier results of their jobs are removed: what does not run now has none."""
    _demand_rows(planned.rows)
    more = [*(["--executor", options.executor] if options.executor != "auto" else []), *_flags(options)]
    run, changed = fitted(engine, make_run(options.on, project, planned, more, options.history))
    for sentence in (*planned.sentences, *planned.rows.notes, *changed):
        say(sentence)
    with _cleared(project, planned.rows, resume=options.resume):
        keep(project, run, planned.rows)
        engine.submit(run)
    for batch in run.batches:
        where = f" for {batch.target}" if batch.target else ""
        say(f"submitted {counted(len(batch.rows), 'row')}{where}, {counted(batch.minutes, 'minute')} each")
    say(f"jobs km-{run.id}; logs in {state.folder_of(project.build)}")
    return run


def _demand_rows(row_plan: RowPlan) -> None:
    if not started(row_plan):
        raise UserError("no row is left that a node could run. ci.slurm.targets names the targets that have a node.")


def _flags(options: argparse.Namespace) -> list[str]:
    flags = [f"--{name}" for name in ("resume", "excluded") if getattr(options, name)]
    return [*flags, *(f"--expect={fact}" for fact in options.expect or ())]


@contextmanager
def _cleared(project: Project, row_plan: RowPlan, *, resume: bool) -> Iterator[None]:
    """Remove earlier results of the jobs, and bring them back where nothing comes to be submitted."""
    results, earlier = project.results, project.results.with_name(f"{project.results.name}.earlier")
    results.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(earlier, ignore_errors=True)
    shutil.copytree(results, earlier)
    try:
        for job in row_plan.jobs:
            with suppress(BusyError), locked(project.build / "jobs" / f"{job.id}.lock"):
                if not resume:
                    names.remove(results, job.id)
                continue
            raise UserError(f"{project.build / 'jobs' / job.id}: another run is at it. Wait for its end.")
        yield
    except BaseException:
        shutil.copytree(earlier, results, dirs_exist_ok=True)
        raise
    finally:
        shutil.rmtree(earlier)


def _alone(project: Project) -> AbstractContextManager[None]:
    return locked(state.folder_of(project.build) / "lock", wait=True)


def _going_on(engine: Engine, project: Project, row_plan: RowPlan, say: Say) -> ClusterRun | None:
    """Return the run that was submitted before, if its jobs wait or run.

    Raises:
        UserError: it is of another plan, or of another user.
    """
    run = state.read(project.build)
    if run and not run.is_mine and not state.status_of_report(run).exists():  # a cluster may hide their jobs
        raise UserError(
            f"km-{run.id}, which {run.whose} has submitted, has made no report yet in {project.build}. Follow it: "
            "`kernel-matrix matrix --attach`; or give a folder of your own: --build FOLDER."
        )
    if run is None or not goes_on(engine.poll(run)):
        return None
    if state.is_interrupted(run):
        _end_what_is_left(engine, run)
        say(f"jobs of km-{run.id} were left of a call that was interrupted: cancelled")
        return None
    if run.plan != _digest(row_plan):
        raise UserError(
            f"jobs of another plan, km-{run.id}, wait or run in {project.build}. Follow them: "
            "`kernel-matrix matrix --attach`; or end them: `kernel-matrix matrix --cancel`; or give --build FOLDER."
        )
    say(f"jobs of an earlier call, km-{run.id}, wait or run: going on with them")
    return run


def _cancel(engine: Engine, run: ClusterRun) -> None:
    """Cancel all jobs of a run. Its report does not come.

    Raises:
        AwayError: the cluster does not answer.
        UserError: another user has submitted it.
    """
    if not run.is_mine:
        raise UserError(f"km-{run.id} is a run of {run.whose}, who alone can end it.")
    state.mark_interrupted(run)
    try:
        engine.cancel(run)
    except AwayError as error:
        text = f"{error}. Jobs of km-{run.id} may go on. The next call ends them, or `kernel-matrix matrix --cancel`."
        raise AwayError(text) from None


def _end_what_is_left(engine: Engine, run: ClusterRun) -> None:
    """Cancel the jobs of a run, and wait until the rows have written what had ended."""
    _cancel(engine, run)
    until = time.monotonic() + _END_SECONDS
    while goes_on(engine.poll(run)) and time.monotonic() < until:
        time.sleep(1)


def _former(options: argparse.Namespace, project: Project, say: Say) -> int:
    """Follow what was submitted before, or cancel it. Ctrl-C leaves its jobs in the cluster."""
    run = state.read(project.build)
    if run is None:
        raise UserError(f"nothing was submitted from {project.build}. Submit: `kernel-matrix matrix --on slurm`.")
    engine = engine_named(run.engine)
    if options.cancel:
        _cancel(engine, run)
        say(f"cancelled all jobs of km-{run.id}")
        return 0
    try:
        return Follower(engine, project, run, say).follow()
    except KeyboardInterrupt:
        say(here("the jobs go on. End them: `kernel-matrix matrix --cancel`"))
        raise


def _digest(row_plan: RowPlan) -> str:
    """Return what identifies the work: the rows with their cases, without the times that were expected of them."""
    work = [(row.id, [case.id for job in row.jobs for case in job.cases]) for row in row_plan.rows]
    return sha256(repr(work).encode()).hexdigest()
