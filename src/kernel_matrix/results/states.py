"""The words that the judge's steps and all who ask it share: states, verdicts and canaries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from kernel_matrix.base.evidence import Evidence
from kernel_matrix.config.plan import Case
from kernel_matrix.store.record import Record

State = Literal[
    "fail",
    "error",
    "fixed",
    "missing",
    "flaky",
    "known",
    "lowered",
    "compiled",
    "told",
    "held",
    "pass",
    "unavailable",
    "excluded",
]
# From the worst: a cell is as bad as its worst case. The last two say nothing of a kernel: they are the state of a cell
# only where no case of it says more.
STATES: tuple[State, ...] = State.__args__  # type: ignore[attr-defined]
RED: frozenset[State] = frozenset({"fail", "error", "fixed", "missing"})
UNTRIED: tuple[State, ...] = ("unavailable", "excluded")
NO_RESULT: frozenset[State] = frozenset({"missing", *UNTRIED})
RED_FIRST: tuple[State, ...] = tuple(state for state in STATES if state in RED)

# The states of a case that a device, an emulator or an interpreter ran.
TRIED: tuple[State, ...] = ("fail", "error", "fixed", "flaky", "known", "held", "pass")

# A canary is a fault that a job puts into a result. The job counts the canaries of a case in these metrics, and names
# those that its comparison did not find in the fact.
INJECTED, CAUGHT, MISSED = "canary.injected", "canary.caught", "canary.missed"


@dataclass(frozen=True)
class Verdict:
    """The state of a planned case.

    ``record`` is the result that decides, None if none came. ``stale`` says why that result may no longer hold for the
    present commit, lock or versions; it is empty if it does.
    """

    case: Case
    state: State
    evidence: Evidence
    reason: str
    record: Record | None
    stale: str = ""


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
