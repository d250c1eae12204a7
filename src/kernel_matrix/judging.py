"""Results -> answers: the one judge, which every caller asks, and all that a caller asks about verdicts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix.base.errors import UserError
from kernel_matrix.config import rule_state as config_rules
from kernel_matrix.config import suite
from kernel_matrix.config.model import Tier
from kernel_matrix.config.plan import Plan, outputs_not_named, with_cases
from kernel_matrix.config.rule_state import RuleState, locked_versions
from kernel_matrix.machines.row_plan import RowPlan, asked_of
from kernel_matrix.pipeline import Project, plan
from kernel_matrix.results import history, repeat
from kernel_matrix.results.history import History
from kernel_matrix.results.present import Present
from kernel_matrix.results.present import present as present_of
from kernel_matrix.results.states import State
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import STREAMED

if TYPE_CHECKING:
    from kernel_matrix.machines.job_status import JobStatus
    from kernel_matrix.report.runs import Side
    from kernel_matrix.results.judged import Judged
    from kernel_matrix.results.plan_columns import Planned
    from kernel_matrix.results.side_by_side import CasePair
    from kernel_matrix.store.database import Connection
    from kernel_matrix.store.load import Loaded
    from kernel_matrix.store.records import Jobs


@contextmanager
def judged(
    project: Project,
    planned: Plan,
    folders: Sequence[Path],
    *,
    row_plan: RowPlan | None = None,
    statuses: Mapping[str, JobStatus] | None = None,
    earlier: History | None = None,
    now: datetime | None = None,
    asks_present: bool = True,
    provisional: Sequence[Record] = (),
    only: Collection[str] | None = None,
    touching: bool = False,
) -> Iterator[Judged]:
    """Read the results of the folders into tables, and judge every planned case by them.

    With ``row_plan`` only its cases count; the status of a row's job (``statuses``, by row) and ``earlier`` reports say
    why a result is missing. ``now`` is the time of judging. Without ``asks_present`` no result is stale. Cases that
    only ``provisional`` results decide, of jobs that have not ended, stay missing. With ``only``, ids of cases, these
    count, and of the others those with a result. With ``touching``, of many results only those of the plan are read.

    Raises:
        UserError: a folder does not exist, or this Python has no DuckDB or no pyarrow.
    """
    _require_libraries()
    from kernel_matrix.results import judged
    from kernel_matrix.store import database, records  # DuckDB and pyarrow take long to import

    with database.database() as connection:
        planned = row_plan.only_asked(planned) if row_plan else planned
        planned, columns, loaded = _loaded(connection, project, planned, folders, row_plan, only, touching=touching)
        if provisional:
            records.add_records(connection, judged.PROVISIONAL, provisional)
        if row_plan:
            _enter_absences(connection, project, row_plan, statuses or {}, earlier or History(), loaded.refused)
        jobs = records.Jobs(connection)
        present = present_of(project.matrix, project.root, now) if asks_present else None
        found = _judged(project, planned, columns, connection, loaded, jobs, present)
        yield replace(found, notes=(*_notes_of_rows(row_plan, statuses or {}), *found.notes))


def _notes_of_rows(row_plan: RowPlan | None, statuses: Mapping[str, JobStatus]) -> tuple[str, ...]:
    """Return the sentences about the rows of a run for its page."""
    from kernel_matrix.machines import row_times

    return row_times.notes(row_plan, statuses) if row_plan else ()


def _loaded(
    connection: Connection,
    project: Project,
    planned: Plan,
    folders: Sequence[Path],
    row_plan: RowPlan | None,
    only: Collection[str] | None,
    *,
    touching: bool,
) -> tuple[Plan, Planned, Loaded]:
    """Load the results; return the plan, with ``only`` without the other cases that have none, and its columns too."""
    from kernel_matrix.results import not_collected
    from kernel_matrix.results.plan_columns import of_plan
    from kernel_matrix.store import load  # DuckDB and pyarrow take long to import
    from kernel_matrix.store.database import rows

    asked = asked_of(project.matrix, row_plan) if row_plan else None
    if only is not None:  # which cases count is known when the results are read
        loaded = load.load(connection, folders, asked, STREAMED)
        planned = with_cases(planned, {*only, *(case for (case,) in rows(connection, 'SELECT "case" FROM cases'))})
        return planned, of_plan(planned), loaded
    with ThreadPoolExecutor(1) as beside:  # most of loading is DuckDB's work, which needs no lock of Python
        columns = beside.submit(of_plan, planned)
        cases = {case.id for case in planned.cases} if touching else None
        loaded = load.load(connection, folders, asked, STREAMED, cases=cases)
    if suite.is_suite(project.matrix):
        not_collected.enter(connection, planned)
    return planned, columns.result(), loaded


def _require_libraries() -> None:
    """Raise a UserError where results can be written as a journal and cannot be judged."""
    missing = [name for name in ("duckdb", "pyarrow") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"nothing was judged: this Python has no {' and no '.join(missing)}. The results stay as they are: "
            "`kernel-matrix report FOLDER` judges them on a machine that has DuckDB and pyarrow"
        )


def _enter_absences(
    connection: Connection,
    project: Project,
    row_plan: RowPlan,
    statuses: Mapping[str, JobStatus],
    earlier: History,
    refused: Mapping[str, str],
) -> None:
    """Enter why planned results of the rows are missing, by the status of their jobs."""
    from kernel_matrix.machines.absences import with_absences
    from kernel_matrix.store.records import enter_absences

    minutes = project.matrix.ci.queue_minutes
    enter_absences(connection, lambda found: with_absences(row_plan, found, statuses, earlier, refused, minutes))


def _judged(
    project: Project,
    planned: Plan,
    columns: Planned,
    connection: Connection,
    loaded: Loaded,
    jobs: Jobs,
    presence: Present | None,
) -> Judged:
    """Judge the results that were loaded."""
    from kernel_matrix.judge import verdicts  # DuckDB and pyarrow take long to import
    from kernel_matrix.report import reruns
    from kernel_matrix.results import judged
    from kernel_matrix.store import load

    verdicts.judge(connection, columns, jobs, presence, loaded.samples, project.matrix.resources, project.root)
    in_journal = judged.set_aside(connection, columns)
    reruns.enter(connection, project.build)  # what running red cases again has told
    foreign = load.foreign(connection)
    states = judged.states_of_expected(connection, columns)
    ended = ended_rules(project, planned, states, presence.now.date()) if presence else ()
    return judged.Judged(
        connection,
        columns,
        planned.package,
        planned.tier,
        loaded,
        jobs,
        notes=(
            *suite.sample_words(project.matrix, planned.tier),
            *outputs_not_named(planned),
            *judged.told_notes(connection),
        ),
        not_taken=tuple(load.not_taken(foreign, {case.id for case in planned.cases})) if foreign else (),
        ended=ended,
        presence=presence,
        in_journal=in_journal,
    )


def ended_rules(project: Project, planned: Plan, states: Mapping[str, State], today: date) -> tuple[RuleState, ...]:
    """Return the expectations and exclusions that do not hold, apart from those that no planned case has."""
    ended = [state for state in rule_states(project, states, today) if state.state != "holds"]
    if not ended:
        return ()
    asked = {case.id for case in planned.cases}
    return tuple(state for state in ended if not state.cases or any(case.id in asked for case in state.cases))


def rule_states(project: Project, cases: Mapping[str, State], today: date) -> list[RuleState]:
    """Return the state of every expectation and exclusion on a day; the states of ``cases`` say which are fixed.

    Say nothing of a matrix that was changed after it was read: its entries belong to another plan.
    """
    checked = project.checked
    if not checked or checked.matrix is not project.matrix:
        return []
    matrix = project.matrix
    states = config_rules.rule_states(matrix, checked.full, locked_versions(matrix, project.root), today)
    of_results = {(state.section, state.index): state for state in config_rules.fixed(matrix, checked.full, cases)}
    return [of_results.get((s.section, s.index), s) if s.state == "holds" else s for s in states]


def rule_states_of(project: Project, folders: Sequence[Path]) -> list[RuleState]:
    """Return the state of every expectation and exclusion, by the results of the folders or of this machine if any.

    Raises:
        UserError: a folder does not exist.
    """
    folders = folders or [folder for folder in [project.results] if folder.exists()]
    now = clock()
    with judged(project, plan(project, "full"), folders, now=now) as results:
        from kernel_matrix.results.judged import states_of_expected  # DuckDB and pyarrow take long to import

        return rule_states(project, states_of_expected(results.connection, results.planned), now.date())


def clock() -> datetime:
    """Return the time in UTC."""
    return datetime.now(UTC)


def side(project: Project, planned: Plan, name: str, earlier: History | None = None) -> Side:
    """Read one of two runs: a site, a folder of results, or the address of a published compat.json.

    The results of a folder are judged by the plan. Whether they are stale does not matter: a run is compared with
    another run, and not with the present source. ``earlier`` is the history that a folder of results does not have.

    Raises:
        UserError: it does not exist, or cannot be used.
    """
    from kernel_matrix.report import cells, make_document, runs  # DuckDB and pyarrow take long to import

    if runs.is_address(name):
        return runs.read_address(name)
    if runs.is_site(Path(name)):
        return runs.read_site(Path(name))
    with judged(project, planned, [Path(name)], asks_present=False) as results:
        if broken := results.loaded.broken:
            raise UserError(f"{name}: {' '.join(broken[0].split())} A run is compared only as a whole.")
        if not results.results:
            raise UserError(f"{name}: it holds no results. Name a site, a folder of results, or the address of a site.")
        sources = cells.Sources(project.matrix, results, lambda: project.rules, project.root)
        document = make_document.document(sources, earlier=earlier)
        past = history.with_run(earlier.measurements if earlier else {}, runs.measurements(document))
        return runs.Side(name, document, past, tuple(record for _, record in results.sampled() if record.samples))


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
