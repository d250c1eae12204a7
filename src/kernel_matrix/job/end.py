"""The end of a case: in one test of the suite, or in several that are marked for its operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class End:
    """The outcome and figures of a case in one test, or in all of its tests."""

    outcome: str
    stage: str | None = None
    message: str = ""
    detail: str = ""
    seconds: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[str, Any] = field(default_factory=dict)


_MILDEST_FIRST = ("pass", "unavailable", "fail", "error")


def combined(ends: Sequence[End]) -> End:
    """Return the end of a case that several tests ran: the worst decides, and no other fault is lost."""
    worst = max(ends, key=lambda end: _MILDEST_FIRST.index(end.outcome))  # max returns the first of several
    worst_first = [worst, *(end for end in ends if end is not worst and end.outcome != "pass")]
    metrics: dict[str, float] = {}
    facts: dict[str, str] = {}
    samples: dict[str, Any] = {}
    for end in (*ends, worst):
        metrics |= end.metrics
        facts |= end.facts
        samples |= end.samples
    if "elements" in metrics:
        metrics["elements"] = sum(end.metrics.get("elements", 0) for end in ends)
    return replace(
        worst,
        message="; ".join(dict.fromkeys(end.message for end in worst_first if end.message)),
        detail="\n".join(dict.fromkeys(end.detail for end in worst_first if end.detail)),
        seconds=sum(end.seconds for end in ends),
        metrics=metrics,
        facts=facts,
        samples=samples,
    )
