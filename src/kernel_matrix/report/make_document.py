"""Cells of the judge's rows -> Document, with the totals of the run. Only this module makes the document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import datetime
from typing import TypeVar

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis.whole import folded
from kernel_matrix.report import badges
from kernel_matrix.report.bench import bench_results
from kernel_matrix.report.cells import Sources
from kernel_matrix.report.checks import Check
from kernel_matrix.report.document import (
    SCHEMA_VERSION,
    Canaries,
    Cell,
    Determinism,
    Document,
    Lane,
    PlatformEntry,
    Run,
    RunNotes,
    SilentLane,
    StaleReason,
    TimedCase,
    Times,
    UndiagnosedError,
)
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results import history
from kernel_matrix.results.agreement import agreement
from kernel_matrix.results.history import History, LaneHistory
from kernel_matrix.results.judged import Judged
from kernel_matrix.results.states import STATES, UNTRIED, State
from kernel_matrix.store.database import rows
from kernel_matrix.vendors.registry import vendor_named

_SHORTEST = 7  # characters of an abbreviation that names one commit


def document(
    sources: Sources,
    *,
    earlier: History | None = None,
    left_out: int = 0,
    toolchains: Toolchains | None = None,
    checks: tuple[Check, ...] = (),
    run_notes: RunNotes | None = None,
    more_notes: tuple[str, ...] = (),
    now: datetime | None = None,
) -> Document:
    """Return everything that is known of the results, apart from the cases of the cells.

    ``earlier`` says since when a lane is silent. ``left_out`` cases were not asked for. ``toolchains`` are the results
    of probes and sweeps, ``checks`` the results of checks. ``run_notes`` stand at the top of the page, and
    ``more_notes`` are added to the sentences that follow from the results. ``now`` is by default the time of the clock.
    """
    matrix, judged, cells, now = sources.matrix, sources.judged, sources.cells, now or history.now()
    lanes = _lanes(judged, cells, earlier or History(), now)
    ended = (state.sentence for state in judged.ended)
    return Document(
        schema_version=SCHEMA_VERSION,
        run=_run(sources, left_out, now),
        platforms=_platforms(matrix),
        lanes=lanes,
        silent_days=matrix.ci.silent_days,
        silent=_silent(lanes, now, matrix.ci.silent_days),
        stale=tuple(StaleReason(reason=reason, cases=count) for reason, count in judged.stale.most_common()),
        speed=_speed(cells),
        bench=bench_results(judged.benchmark(), judged.presence),
        undiagnosed=_undiagnosed(sources),
        problems=judged.loaded.broken,
        notes=(*judged.notes, *judged.loaded.notes, *ended, *judged.not_taken, *more_notes),
        run_notes=run_notes or RunNotes(),
        toolchains=toolchains or Toolchains(),
        checks=checks,
        agreement=agreement(judged.sampled()),
        cells=cells,
        jobs=sources.jobs,
    )


def _platforms(matrix: Matrix) -> tuple[PlatformEntry, ...]:
    return tuple(
        PlatformEntry(
            name=name,
            title=platform.title,
            vendor=platform.device,
            vendor_title=vendor_named(platform.device).title,
            targets=tuple(platform.targets),
        )
        for name, platform in matrix.platforms.items()
    )


def _run(sources: Sources, left_out: int, now: datetime) -> Run:
    judged, cells = sources.judged, sources.cells
    cases: Counter[State] = Counter()
    for cell in cells:
        cases.update(cell.cases)
    return Run(
        package=judged.package,
        baseline=sources.matrix.package.baseline,
        tier=judged.tier,
        created=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        commits=distinct_commits(judged.commits),
        devices=tuple(sorted(judged.devices)),
        cells=len(cells),
        cells_by_state=_by_state(cells),
        cells_by_evidence=_by_evidence(cells),
        emulated=sum(cell.emulated > 0 for cell in cells),
        stale_by_evidence=_by_evidence(cell for cell in cells if cell.stale),
        cases=sum(cell.planned for cell in cells),
        cases_by_state={state: cases[state] for state in STATES if cases[state]},
        stale_cases=sum(cell.stale_cases for cell in cells),
        unplanned=judged.unplanned,
        left_out=left_out,
    )


def distinct_commits(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of commits in order; of several abbreviations of one commit, only the longest."""
    longest: list[str] = []
    for name in sorted(set(names), key=lambda name: (-len(name), name)):
        revision, changes, _ = name.partition("+")
        same = (other.startswith(revision) and ("+" in other) == bool(changes) for other in longest)
        if len(revision) < _SHORTEST or not any(same):
            longest.append(name)
    return tuple(sorted(longest))


def _lanes(judged: Judged, cells: Sequence[Cell], earlier: History, now: datetime) -> tuple[Lane, ...]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(history.lane_id(cell.id), []).append(cell)
    lanes = [_lane(group) for group in groups.values()]
    shown = {lane.id: badges.of_lane(lane) for lane in lanes}
    carried = history.carry_on(earlier.lanes, judged.tried_in_lanes(now), shown, now)
    return tuple(lane.model_copy(update={"history": carried[lane.id]}) for lane in lanes)


def _lane(cells: Sequence[Cell]) -> Lane:
    first, tried = cells[0], [cell for cell in cells if cell.state not in UNTRIED]
    return Lane(
        platform=first.platform,
        target=first.target,
        toolchain=first.toolchain,
        state=min((cell.state for cell in cells), key=STATES.index),
        evidence=min((cell.evidence for cell in tried), key=EVIDENCE.index, default="planned"),
        cells=len(cells),
        by_state=_by_state(cells),
        by_evidence=_by_evidence(cells),
        emulated=sum(cell.emulated > 0 for cell in cells),
        stale_by_evidence=_by_evidence(cell for cell in cells if cell.stale),
        canaries=_summed(cell.canaries for cell in cells),
        determinism=_summed(cell.determinism for cell in cells),
        history=LaneHistory(),
    )


_Counts = TypeVar("_Counts", Canaries, Determinism)


def _summed(of_cells: Iterable[_Counts | None]) -> _Counts | None:
    """Return the sum of each count; None where no cell has any."""
    counts = [one for one in of_cells if one]
    names = [one.name for one in fields(counts[0])] if counts else []
    return type(counts[0])(**{name: sum(getattr(one, name) for one in counts) for name in names}) if counts else None


def _silent(lanes: Iterable[Lane], now: datetime, silent_days: float) -> tuple[SilentLane, ...]:
    """Return the lanes without a result in this run, and those whose last result is old; the longest silent first."""
    silent = []
    for lane in lanes:
        last, since = lane.history.last_result, lane.history.silent_since
        days = (now - (last or since or now)).total_seconds() / 86400
        is_old = last is not None and days > silent_days
        if since is None and not is_old:
            continue
        silent.append(
            SilentLane(
                lane=lane.id,
                last_result=last.isoformat() if last else None,
                silent_since=(since or last or now).isoformat(),
                days=round(days, 1),
                gone=is_old,
            )
        )
    return tuple(sorted(silent, key=lambda lane: (lane.last_result is None, -lane.days, lane.lane)))


def _speed(cells: Iterable[Cell]) -> tuple[TimedCase, ...]:
    """Return the timed cases of every operator on every target, with the times of all toolchains together."""
    by_case: dict[tuple[str, str, str, str], dict[str, Times]] = {}
    for cell in cells:
        for timed in cell.timed:
            key = (cell.platform, cell.target, f"{cell.op} {cell.direction}", timed.case)
            by_case.setdefault(key, {})[cell.toolchain] = Times(
                run=timed.run, baseline=timed.baseline, ratio=timed.ratio, rounds=timed.rounds
            )
    return tuple(
        TimedCase(platform=platform, target=target, op=op, case=case, toolchains=toolchains)
        for (platform, target, op, case), toolchains in by_case.items()
    )


def _by_state(cells: Iterable[Cell]) -> dict[State, int]:
    counted = Counter(cell.state for cell in cells)
    return {state: counted[state] for state in STATES if counted[state]}


def _by_evidence(cells: Iterable[Cell]) -> dict[Evidence, int]:
    counted = Counter(cell.evidence for cell in cells)
    return {level: counted[level] for level in EVIDENCE if counted[level]}


def _undiagnosed(sources: Sources) -> tuple[UndiagnosedError, ...]:
    """Return the errors that no rule knows, each with the number of its cases. They show which rules to add."""
    question = """
        SELECT job, outcome, stage, message, detail, reason, count(*)
        FROM verdicts JOIN planned USING (planned) JOIN cases USING (record) WHERE state = 'error'
        GROUP BY ALL ORDER BY min((cell::BIGINT << 32) + planned)
    """
    counted: Counter[tuple[str, str]] = Counter()
    found = rows(sources.judged.connection, question)
    diagnoses = sources.diagnoses.of([row[:-1] for row in found])
    for (_, _, stage, message, _, reason, count), diagnosis in zip(found, diagnoses, strict=True):
        text = (message if message != reason else "") or reason
        if text and not diagnosis.rule:
            counted[stage, folded(text)] += count
    return tuple(
        UndiagnosedError(stage=stage, message=message, cases=count) for (stage, message), count in counted.most_common()
    )
