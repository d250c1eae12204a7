"""Cells and the facts of a run -> Document. Only this module makes the document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from kernel_matrix.base.evidence import EVIDENCE, Evidence
from kernel_matrix.config.model import Matrix
from kernel_matrix.report import badges
from kernel_matrix.report.agreement import AgreementReport
from kernel_matrix.report.document import (
    SCHEMA_VERSION,
    BenchResult,
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
from kernel_matrix.results.compare import STATES, State
from kernel_matrix.results.history import History, LaneHistory
from kernel_matrix.vendors.registry import vendor_named

_SHORTEST = 7  # characters of an abbreviation that names one commit


@dataclass(frozen=True)
class Facts:
    """The facts of a report beside its cells.

    ``with_results`` are the lanes in which a machine tried at least one case. ``stale`` has the number of cases by the
    reason, and ``undiagnosed`` that of the errors that no rule knows, by stage and message.
    """

    package: str
    tier: str
    commits: Collection[str]
    devices: Collection[str]
    unplanned: int
    with_results: Collection[str]
    stale: Counter[str]
    undiagnosed: Counter[tuple[str, str]]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    agreement: AgreementReport
    jobs: tuple[dict[str, str], ...]
    bench: tuple[BenchResult, ...] = ()


def document(
    matrix: Matrix,
    cells: tuple[Cell, ...],
    facts: Facts,
    *,
    earlier: History | None = None,
    left_out: int = 0,
    toolchains: Toolchains | None = None,
    run_notes: RunNotes | None = None,
    now: datetime | None = None,
) -> Document:
    """Return everything that is known of the results.

    ``earlier`` says since when a lane is silent. ``left_out`` cases were not asked for. ``toolchains`` are the results
    of probes and sweeps. ``run_notes`` stand at the top of the page. ``now`` is by default the time of the clock.
    """
    now = now or history.now()
    lanes = _lanes(facts.with_results, cells, earlier or History(), now)
    return Document(
        schema_version=SCHEMA_VERSION,
        run=_run(matrix, facts, cells, left_out, now),
        platforms=_platforms(matrix),
        lanes=lanes,
        silent_days=matrix.ci.silent_days,
        silent=_silent(lanes, now, matrix.ci.silent_days),
        stale=tuple(StaleReason(reason=reason, cases=count) for reason, count in facts.stale.most_common()),
        speed=_speed(cells),
        bench=facts.bench,
        undiagnosed=tuple(
            UndiagnosedError(stage=stage, message=message, cases=count)
            for (stage, message), count in facts.undiagnosed.most_common()
        ),
        problems=facts.problems,
        notes=facts.notes,
        run_notes=run_notes or RunNotes(),
        toolchains=toolchains or Toolchains(),
        agreement=facts.agreement,
        cells=cells,
        jobs=facts.jobs,
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


def _run(matrix: Matrix, facts: Facts, cells: Sequence[Cell], left_out: int, now: datetime) -> Run:
    cases: Counter[State] = Counter()
    for cell in cells:
        cases.update(cell.cases)
    return Run(
        package=facts.package,
        baseline=matrix.package.baseline,
        tier=facts.tier,
        created=f"{now:%Y-%m-%dT%H:%M:%SZ}",
        commits=distinct_commits(facts.commits),
        devices=tuple(sorted(facts.devices)),
        cells=len(cells),
        cells_by_state=_by_state(cells),
        cells_by_evidence=_by_evidence(cells),
        stale_by_evidence=_by_evidence(cell for cell in cells if cell.stale),
        cases=sum(cell.planned for cell in cells),
        cases_by_state={state: cases[state] for state in STATES if cases[state]},
        stale_cases=sum(cell.stale_cases for cell in cells),
        unplanned=facts.unplanned,
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


def _lanes(with_results: Collection[str], cells: Sequence[Cell], earlier: History, now: datetime) -> tuple[Lane, ...]:
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(history.lane_id(cell.id), []).append(cell)
    lanes = [_lane(group) for group in groups.values()]
    shown = {lane.id: badges.of_lane(lane) for lane in lanes}
    carried = history.carry_on(earlier.lanes, with_results, shown, now)
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


def _canaries(cells: Sequence[Cell]) -> Canaries | None:
    counts = [cell.canaries for cell in cells if cell.canaries]
    if not counts:
        return None
    return Canaries(injected=sum(c.injected for c in counts), caught=sum(c.caught for c in counts))


def _determinism(cells: Sequence[Cell]) -> Determinism | None:
    counts = [cell.determinism for cell in cells if cell.determinism]
    if not counts:
        return None
    return Determinism(repeats=sum(c.repeats for c in counts), differing=sum(c.differing for c in counts))


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
