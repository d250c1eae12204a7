"""Try a lane with each kind of cache, compare with its first run, and return the results as checks."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kernel_matrix import __version__
from kernel_matrix.base import git
from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check, Finding
from kernel_matrix.tools.caches.explained import Explanation
from kernel_matrix.tools.caches.kinds import COLD, KINDS, files_below, fill
from kernel_matrix.tools.caches.lanes import LaneRuns, variables_of
from kernel_matrix.tools.caches.results import NotTriedError, Ran, Result

_CHARACTERS = 2000  # of a finding's text that are kept


@dataclass
class Tried:
    """One lane with one kind of cache: what is different in each case; or why it was not tried."""

    lane: LaneRuns
    differences: dict[str, tuple[str, ...]] = field(default_factory=dict)  # by the case's id; none: the same bits
    unfinished: dict[str, str] = field(default_factory=dict)
    why_not: str = ""


def tried(lane: LaneRuns, kinds: Collection[str]) -> dict[str, Tried]:
    """Return what came of a lane by kind. ``cold`` is always tried: it says which cases can be compared at all."""
    fill(lane.cache)
    first = lane.run()
    fill(lane.kept, lane.cache)
    of_first = {case.id: first.results[case.id] for case in lane.job.cases}
    sound = {case: result for case, result in of_first.items() if result.ended and not result.red}
    cold = _compared(lane, KINDS[COLD].run(lane), sound)
    cold.unfinished |= {case: result.words for case, result in of_first.items() if case not in sound}
    steady = {case: sound[case] for case, texts in cold.differences.items() if not texts}
    found = {COLD: cold}
    for name in kinds:
        if name != COLD:
            found[name] = _tried(lane, name, steady)
    return found


def _tried(lane: LaneRuns, name: str, steady: Mapping[str, Result]) -> Tried:
    if not steady:
        return Tried(lane, why_not="no case gives the same bits twice with an empty cache")
    if not files_below(lane.kept):
        return Tried(lane, why_not=f"it keeps no file in {', '.join(variables_of(lane.project))}")
    try:
        return _compared(lane, KINDS[name].run(lane), steady)
    except NotTriedError as reason:
        return Tried(lane, why_not=str(reason))


def _compared(lane: LaneRuns, runs: Sequence[Ran], expected: Mapping[str, Result]) -> Tried:
    """Return what is different in each case in some runs, each difference once."""
    found = Tried(lane)
    for case, result in expected.items():
        if lost := [other.words for other in (ran.results[case] for ran in runs) if not other.ended]:
            found.unfinished[case] = lost[0]
            continue
        of_runs = ((ran.began, result.difference(ran.results[case])) for ran in runs)
        texts = (f"{began}: {text}" if began else text for began, text in of_runs if text)
        found.differences[case] = tuple(dict.fromkeys(texts))
    return found


def check_of(
    project: Project, name: str, all_tried: Sequence[Tried], began: float, known: Sequence[Explanation], machine: str
) -> Check:
    """Return what came of one kind of cache, in all lanes."""
    differences = {case: texts for one in all_tried for case, texts in one.differences.items()}
    unfinished = {case: text for one in all_tried for case, text in one.unfinished.items()}
    findings = [_finding(name, case, text, known) for case, texts in differences.items() for text in texts]
    not_tried = [f"{one.lane.name}: {one.why_not}" for one in all_tried if one.why_not]
    return Check(
        name=f"cache {name}",
        program=f"kernel-matrix {__version__}",
        sees=f"other bits, errors and hangs in {KINDS[name].sees}",
        machine=machine,
        commit=git.commit(project.root),
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        note=f"Not tried: {'; '.join(not_tried)}." if not_tried else "",
        cells=checks.cells_of([*differences, *unfinished], findings, unfinished),
        findings=tuple(findings),
        unfinished=tuple(f"{case}: {text}" for case, text in unfinished.items()),
    )


def _finding(name: str, case: str, text: str, known: Sequence[Explanation]) -> Finding:
    reason = next((one.reason for one in known if one.holds(name, case.split("/")[2], text)), "")
    return Finding(case=case, text=text[:_CHARACTERS], explained=reason)
