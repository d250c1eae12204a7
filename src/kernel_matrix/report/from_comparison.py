"""Comparison -> Document. Only this module makes the document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import Rule
from kernel_matrix.report import badges
from kernel_matrix.report.agreement import agreement_report
from kernel_matrix.report.bench import bench_results
from kernel_matrix.report.cells import JobList, Sources, make_cell
from kernel_matrix.report.document import (
    SCHEMA_VERSION,
    Canaries,
    Cell,
    Determinism,
    Document,
    Lane,
    PlatformEntry,
    Run,
    SilentLane,
    StaleReason,
    TimedCase,
    Times,
    UndiagnosedError,
)
from kernel_matrix.report.notes import RunNotes
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results import history
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import STATES, Comparison, State
from kernel_matrix.results.history import History, LaneHistory
from kernel_matrix.results.present import Present
from kernel_matrix.results.record import Record
from kernel_matrix.results.repeat import Commands
from kernel_matrix.vendors.registry import vendor_named

_SHORTEST = 7  # characters of an abbreviation that names one commit


def document(
    matrix: Matrix,
    comparison: Comparison,
    collected: Collected,
    rules: tuple[Rule, ...] | None = None,
    *,
    earlier: History | None = None,
    left_out: int = 0,
    toolchains: Toolchains | None = None,
    run_notes: RunNotes | None = None,
    presence: Present | None = None,
    now: datetime | None = None,
) -> Document:
    """Return everything that is known of the results.

    ``rules`` are by default the harness's own. ``earlier`` says since when a lane is silent. ``left_out`` cases were
    not asked for. ``presence`` says which results of the benchmark are stale. ``now`` is by default the clock's.
    """
    now, jobs = now or history.now(), JobList()
    cells = _cells(Sources(matrix, rules, jobs, Commands(matrix)), comparison)
    lanes = _lanes(comparison, cells, earlier or History(), now)
    return Document(
        schema_version=SCHEMA_VERSION,
        run=_run(matrix, comparison, collected, cells, left_out, now),
        platforms=_platforms(matrix),
        lanes=lanes,
        silent_days=matrix.ci.silent_days,
        silent=_silent(lanes, now, matrix.ci.silent_days),
        stale=_stale(comparison),
        speed=_speed(cells),
        bench=bench_results(collected.records, presence),
        undiagnosed=_undiagnosed(cells),
        problems=collected.broken,
        notes=(*comparison.notes, *(state.sentence for state in comparison.ended), *comparison.not_taken),
        run_notes=run_notes or RunNotes(),
        toolchains=toolchains or Toolchains(),
        agreement=agreement_report(comparison),
        cells=cells,
        jobs=tuple(dict(job) for job in jobs.jobs),
    )


def _cells(sources: Sources, comparison: Comparison) -> tuple[Cell, ...]:
    return tuple(make_cell(sources, verdict) for verdict in comparison.cells)


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


def _run(
    matrix: Matrix, comparison: Comparison, collected: Collected, cells: Sequence[Cell], left_out: int, now: datetime
) -> Run:
    return Run(
        package=comparison.plan.package,
        baseline=matrix.package.baseline,
        tier=comparison.plan.tier,
        created=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        commits=distinct_commits(r.job["commit"] for r in collected.records if r.job.get("commit")),
        devices=tuple(sorted({r.job["device"] for r in collected.records if _used_device(r)})),
        cells=len(cells),
        cells_by_state=_by_state(cells),
        cells_by_evidence=_by_evidence(cells),
        stale_by_evidence=_by_evidence(cell for cell in cells if cell.stale),
        cases=len(comparison.plan.cases),
        cases_by_state=comparison.counts,
        stale_cases=sum(cell.stale_cases for cell in cells),
        unplanned=len(comparison.unplanned),
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


def _lanes(comparison: Comparison, cells: Sequence[Cell], earlier: History, now: datetime) -> tuple[Lane, ...]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(history.lane_id(cell.id), []).append(cell)
    lanes = [_lane(group) for group in groups.values()]
    shown = {lane.id: badges.of_lane(lane) for lane in lanes}
    carried = history.carry_on(earlier.lanes, comparison, shown, now)
    return tuple(lane.model_copy(update={"history": carried[lane.id]}) for lane in lanes)


def _lane(cells: Sequence[Cell]) -> Lane:
    first = cells[0]
    return Lane(
        platform=first.platform,
        target=first.target,
        toolchain=first.toolchain,
        state=min((cell.state for cell in cells), key=STATES.index),
        evidence=min((cell.evidence for cell in cells), key=EVIDENCE.index),
        cells=len(cells),
        by_state=_by_state(cells),
        by_evidence=_by_evidence(cells),
        stale_by_evidence=_by_evidence(cell for cell in cells if cell.stale),
        canaries=_canaries(cells),
        determinism=_determinism(cells),
        history=LaneHistory(),
    )


def _determinism(cells: Sequence[Cell]) -> Determinism | None:
    counts = [cell.determinism for cell in cells if cell.determinism]
    if not counts:
        return None
    return Determinism(repeats=sum(c.repeats for c in counts), differing=sum(c.differing for c in counts))


def _canaries(cells: Sequence[Cell]) -> Canaries | None:
    counts = [cell.canaries for cell in cells if cell.canaries]
    if not counts:
        return None
    return Canaries(injected=sum(c.injected for c in counts), caught=sum(c.caught for c in counts))


def _silent(lanes: Iterable[Lane], now: datetime, silent_days: float) -> tuple[SilentLane, ...]:
    """Return the lanes without a result in this run, the longest silent first."""
    silent = []
    for lane in lanes:
        last, since = lane.history.last_result, lane.history.silent_since
        if since is None:
            continue
        days = (now - (last or since)).total_seconds() / 86400
        silent.append(
            SilentLane(
                lane=lane.id,
                last_result=last.isoformat() if last else None,
                silent_since=since.isoformat(),
                days=round(days, 1),
                gone=last is not None and days > silent_days,
            )
        )
    return tuple(sorted(silent, key=lambda lane: (lane.last_result is None, -lane.days, lane.lane)))


def _stale(comparison: Comparison) -> tuple[StaleReason, ...]:
    counted = Counter(verdict.stale for cell in comparison.cells for verdict in cell.cases if verdict.stale)
    return tuple(StaleReason(reason=reason, cases=count) for reason, count in counted.most_common())


def _speed(cells: Iterable[Cell]) -> tuple[TimedCase, ...]:
    """Return the timed cases of every operator on every target, with the times of all toolchains together."""
    by_case: dict[tuple[str, str, str, str], dict[str, Times]] = {}
    for cell in cells:
        for timed in cell.timed:
            key = (cell.platform, cell.target, f"{cell.op} {cell.direction}", timed.case)
            by_case.setdefault(key, {})[cell.toolchain] = Times.model_validate(timed.model_dump())
    return tuple(
        TimedCase(platform=platform, target=target, op=op, case=case, toolchains=toolchains)
        for (platform, target, op, case), toolchains in by_case.items()
    )


def _undiagnosed(cells: Iterable[Cell]) -> tuple[UndiagnosedError, ...]:
    """Return the errors that no rule knows, each once, with the number of its cases. They show which rules to add."""
    counted: Counter[tuple[str, str]] = Counter()
    for result in (result for cell in cells for result in cell.results):
        message = result.message or result.reason
        if result.state == "error" and result.diagnosis and not result.diagnosis.rule and message:
            counted[result.stage, message.splitlines()[0]] += 1
    return tuple(
        UndiagnosedError(stage=stage, message=message, cases=count) for (stage, message), count in counted.most_common()
    )


def _used_device(record: Record) -> bool:
    return record.action in ("run", "emulate") and record.job.get("device", "none") != "none"


def _by_state(cells: Iterable[Cell]) -> dict[State, int]:
    counted = Counter(cell.state for cell in cells)
    return {state: counted[state] for state in STATES if counted[state]}


def _by_evidence(cells: Iterable[Cell]) -> dict[Evidence, int]:
    counted = Counter(cell.evidence for cell in cells)
    return {level: counted[level] for level in EVIDENCE if counted[level]}
