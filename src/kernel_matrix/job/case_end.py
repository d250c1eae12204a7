"""The end of a case in one test of the suite, by the exception that ended the test."""

from __future__ import annotations

import traceback

import pytest

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.end import End
from kernel_matrix.job.kernel_process import DeviceMissingError, KernelProcessError


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
