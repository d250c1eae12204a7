"""Demand that the comparison of every job has found the faults that were put into results.

A canary is such a fault. The job counts the canaries of a case in the metrics ``canary.injected`` and
``canary.caught``, and names those that were missed in the fact ``canary.missed``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kernel_matrix.config.canaries import Group, group_of
from kernel_matrix.config.model import ASSERTED
from kernel_matrix.config.plan import Case
from kernel_matrix.store.record import Record

INJECTED, CAUGHT, MISSED = "canary.injected", "canary.caught", "canary.missed"
_COMPARED = ("run", "emulate")


@dataclass(frozen=True)
class Detection:
    """The number of canaries that were injected into some records, and of those that the comparison found."""

    injected: int = 0
    caught: int = 0

    @property
    def facts(self) -> dict[str, str]:
        """The facts of a job that say so; none if no case carried canaries."""
        return {INJECTED: str(self.injected), CAUGHT: str(self.caught)} if self.injected else {}


def detection(records: Iterable[Record]) -> Detection:
    """Return the sum over the records."""
    injected = caught = 0
    for record in records:
        injected += int(record.metrics.get(INJECTED, 0))
        caught += int(record.metrics.get(CAUGHT, 0))
    return Detection(injected, caught)


def faults_of_jobs(
    cases: Iterable[Case], accepted: Mapping[str, Iterable[Record]], records: Iterable[Record]
) -> dict[int, str]:
    """Return why the comparison of a job is not trusted, by the identity of the job's facts; none for a good job.

    Every canary counts that is in one of the ``records``, also where the plan does not have the case, or where the
    record is refused: it was put in and compared by the same job, which has counted it.

    Of the plan's ``cases`` a job owes canaries, in an accepted record, for every target, operator, direction and dtype
    of which cases passed, unless one of these cases ended in another way: that one may have carried them, and its cell
    is not green already. A test of a suite that asserts by itself owes them where it compares, which
    :mod:`kernel_matrix.results.proof` demands of its record.
    """
    carriers: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        if INJECTED in record.metrics or _claims(record):
            carriers[id(record.job)].append(record)
    by_job: dict[int, dict[Group, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        for record in accepted.get(case.id, ()):
            by_job[id(record.job)][group_of(case)].append(record)
    return {job: fault for job, groups in by_job.items() if (fault := _fault_of(carriers[job], groups))}


def _fault_of(carriers: list[Record], groups: Mapping[Group, list[Record]]) -> str:
    if any(not _is_possible(record) for record in carriers):
        return "the counts of the injected faults in the records of this job are impossible"
    found = detection(carriers)
    if found.caught < found.injected:
        named = "; ".join(dict.fromkeys(text for record in carriers if (text := record.facts.get(MISSED))))
        missed = f"{found.injected - found.caught} of {found.injected}"
        return f"the comparison of this job missed {missed} injected faults: {named or 'it does not say which'}"
    if (told := _of_the_job(carriers)) is not None and told != found:
        return (
            f"this job says that it caught {told.caught} of {told.injected} injected faults, and its cases say "
            f"{found.caught} of {found.injected}"
        )
    owing = [
        group
        for group, members in groups.items()
        if group[0].direction != ASSERTED and _owes(members) and not any(map(_has, members))
    ]
    if owing:
        (cell, dtype), more = owing[0], f" and {len(owing) - 1} more" if len(owing) > 1 else ""
        name = f"{cell.op}.{cell.direction}{f' in {dtype}' if dtype else ''} on {cell.target}"
        return f"this job injected no fault into a result of {name}{more}: nothing shows that it compares"
    return ""


def _of_the_job(carriers: list[Record]) -> Detection | None:
    """Return what the facts of the job say; None if they say nothing."""
    facts = carriers[0].job if carriers else {}
    if INJECTED not in facts and CAUGHT not in facts:
        return None
    try:
        return Detection(int(facts.get(INJECTED, "")), int(facts.get(CAUGHT, "")))
    except ValueError:
        return Detection(-1, -1)


def _owes(members: Iterable[Record]) -> bool:
    """Return whether some of these cases passed by a comparison, and none ended in another way."""
    outcomes = {record.outcome for record in members if record.action in _COMPARED or record.outcome != "pass"}
    return outcomes - {"excluded"} == {"pass"}


def _claims(record: Record) -> bool:
    return CAUGHT in record.metrics or MISSED in record.facts


def _has(record: Record) -> bool:
    return record.metrics.get(INJECTED, 0) > 0


def _is_possible(record: Record) -> bool:
    injected, caught = record.metrics.get(INJECTED, 0.0), record.metrics.get(CAUGHT, 0.0)
    return 0 <= caught <= injected and injected == int(injected) and caught == int(caught)
