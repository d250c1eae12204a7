"""Results -> verdicts: the one judge that every caller asks, and the expectations and exclusions that have ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix.base.errors import UserError
from kernel_matrix.config import rule_state as config_rules
from kernel_matrix.config.plan import Plan, outputs_not_named
from kernel_matrix.config.rule_state import RuleState, locked_versions
from kernel_matrix.machines.absences import with_absences
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan, asked_of
from kernel_matrix.project import Project
from kernel_matrix.results.history import History
from kernel_matrix.results.present import Present
from kernel_matrix.results.present import present as present_with
from kernel_matrix.results.states import State
from kernel_matrix.store import ahead
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import STREAMED

if TYPE_CHECKING:
    from kernel_matrix.results.judged import Judged
    from kernel_matrix.results.planned import Planned
    from kernel_matrix.store.database import Connection
    from kernel_matrix.store.load import Loaded


@contextmanager
def tables_checked_ahead(folders: Sequence[Path]) -> Iterator[None]:
    """Check the tables of the folders beside the work of the block, for who judges them after it."""
    with ahead.checked_ahead(folders, STREAMED):
        yield


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
) -> Iterator[Judged]:
    """Read the results of the folders into tables, and judge every planned case by them.

    With ``row_plan`` only its cases count; the status of a row's job (``statuses``, by row) and ``earlier`` reports say
    why a result is missing. ``now`` is the time of judging. Without ``asks_present`` no result is stale. Cases that
    only ``provisional`` results decide, of jobs that have not ended, stay missing.

    Raises:
        UserError: a folder does not exist, or this Python has no DuckDB or no pyarrow.
    """
    _require_libraries()
    from kernel_matrix.results import judged
    from kernel_matrix.results.planned import of_plan
    from kernel_matrix.store import database, load  # DuckDB and pyarrow take long to import
    from kernel_matrix.store.records import add_records

    with database.database() as connection:
        asked = asked_of(project.matrix, row_plan) if row_plan else None
        planned = row_plan.only_asked(planned) if row_plan else planned
        with ThreadPoolExecutor(1) as beside:  # most of loading is DuckDB's work, which needs no lock of Python
            columns = beside.submit(of_plan, planned)
            loaded = load.load(connection, folders, asked, STREAMED)
        if provisional:
            add_records(connection, judged.PROVISIONAL, provisional)
        present = _present(connection, project, loaded, now) if asks_present else None
        if row_plan:
            _enter_absences(connection, project, row_plan, statuses or {}, earlier or History(), loaded.refused)
        yield _judged(project, planned, columns.result(), connection, loaded, present)


def _require_libraries() -> None:
    """Raise a UserError where results can be written as a journal and cannot be judged."""
    missing = [name for name in ("duckdb", "pyarrow") if find_spec(name) is None]
    if missing:
        raise UserError(
            f"nothing was judged: this Python has no {' and no '.join(missing)}. The results stay as they are: "
            "`kernel-matrix report FOLDER` judges them on a machine that has DuckDB and pyarrow"
        )


def _present(connection: Connection, project: Project, loaded: Loaded, now: datetime | None) -> Present:
    """Return the present state of the checkout for the jobs that have results."""
    from kernel_matrix.store.records import Jobs

    jobs = [Record("", "pass", job=facts) for facts in Jobs(connection).facts.values()]
    return present_with(project.matrix, project.root, jobs, (*loaded.files, *loaded.paths), now, project.name)


def _enter_absences(
    connection: Connection,
    project: Project,
    row_plan: RowPlan,
    statuses: Mapping[str, JobStatus],
    earlier: History,
    refused: Mapping[str, str],
) -> None:
    """Enter why planned results of the rows are missing."""
    from kernel_matrix.store.records import enter_absences

    minutes = project.matrix.ci.queue_minutes
    enter_absences(connection, lambda found: with_absences(row_plan, found, statuses, earlier, refused, minutes))


def _judged(
    project: Project,
    planned: Plan,
    columns: Planned,
    connection: Connection,
    loaded: Loaded,
    presence: Present | None,
) -> Judged:
    """Judge the results that were loaded."""
    from kernel_matrix.judge import verdicts  # DuckDB and pyarrow take long to import
    from kernel_matrix.results import judged
    from kernel_matrix.store import load
    from kernel_matrix.store.records import Jobs

    jobs = Jobs(connection)
    verdicts.judge(connection, columns, presence)
    in_journal = judged.set_aside(connection, columns)
    foreign = load.foreign(connection)
    ended: tuple[RuleState, ...] = ()
    if presence:
        ended = ended_rules(project, planned, judged.states_of_expected(connection, columns), presence.now.date())
    return judged.Judged(
        connection,
        columns,
        planned.package,
        planned.tier,
        loaded,
        jobs,
        notes=(*([presence.note] if presence and presence.note else []), *outputs_not_named(planned)),
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

    Of a matrix that was changed after it was read, nothing is said: its entries are those of another plan.
    """
    checked = project.checked
    if not checked or checked.matrix is not project.matrix:
        return []
    matrix = project.matrix
    states = config_rules.rule_states(matrix, checked.full, locked_versions(matrix, project.root), today)
    of_results = {(state.section, state.index): state for state in config_rules.fixed(matrix, checked.full, cases)}
    return [of_results.get((s.section, s.index), s) if s.state == "holds" else s for s in states]
