"""The end of a case: in one test of the suite, or in several that are marked for its operator."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcessError


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


def end_of(case: RunningCase, error: BaseException | None, seconds: float) -> End:
    """Return the end of a test of the case, by the exception that ended it."""
    facts = dict(case.facts)
    if error is None:
        return End("pass", seconds=seconds, metrics=dict(case.metrics), facts=facts, samples=dict(case.samples))
    if isinstance(error, (pytest.skip.Exception, DeviceMissingError)):
        if case.action != "run":
            return End("unavailable", message=str(error), seconds=seconds, facts=facts)
        message = f"the device of this case is here, and the test was skipped: {error}"
        return End("error", case.last_stage, message, seconds=seconds, facts=facts)
    message, detail = plain("".join(traceback.format_exception_only(error)).strip()), traceback.format_exception(error)
    message = getattr(error, "sentence", message)
    if isinstance(error, KernelProcessError):
        message, detail = error.text, [error.detail]
        if error.stage == "crash":
            facts["during"] = case.last_stage
    failed = isinstance(error, AssertionError)
    return End(
        "fail" if failed else "error",
        None if failed else getattr(error, "stage", None) or case.last_stage,
        message,
        "".join(detail),
        seconds,
        dict(case.metrics),
        facts,
        dict(case.samples),
    )


def plain(text: str) -> str:
    """Return the text without pytest's mark of an error."""
    return text.removeprefix("E   ").strip()
