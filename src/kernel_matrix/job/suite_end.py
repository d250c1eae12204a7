"""The end of a test of a suite, from the reports that pytest makes of its parts."""

from __future__ import annotations

import traceback
from typing import Any, Protocol

import pytest

from kernel_matrix.job.test_names import FAULTS

MOST = 20_000  # characters of a text
_ASSERTIONS = (AssertionError, pytest.fail.Exception)


class Compared(Protocol):
    """The comparisons of a test through the fixture ``matrix``."""

    metrics: dict[str, float]
    facts: dict[str, str]
    samples: dict[str, Any]


class SuiteEnd:
    """The reports of one test so far."""

    def __init__(self) -> None:
        """Begin without any report."""
        self.faults: list[tuple[bool, str, str]] = []  # whether an assertion, the message, the whole text
        self.reasons: list[str] = []  # why it was skipped, or may fail
        self.called = False  # whether the test itself came to its end
        self.facts: dict[str, str] = {}

    def take(self, report: pytest.TestReport, error: BaseException | None) -> None:
        """Take the report of a part, and the exception that ended the part if there was one."""
        reason = getattr(report, "wasxfail", None)
        if report.failed:
            self.faults.append(_fault(report, error))
        elif report.skipped and reason is not None:
            self.reasons.append(f"the suite expects this test to fail: {_words(reason)}")
        elif report.skipped:
            self.reasons.append(f"the suite skips this test: {_words(_reason(report))}")
        elif report.when == "call":
            self.called = True
            if reason is not None:
                self.facts["xfail"] = f"it passed, and the suite expects it to fail: {_words(reason)}"

    def stopped(self, error: BaseException) -> None:
        """Take the exception with which the test ended pytest itself."""
        text = "".join(traceback.format_exception_only(error)).strip()
        self.faults.append((False, f"the test ended pytest: {text}", "".join(traceback.format_exception(error))))

    def fields(self, compared: Compared | None) -> dict[str, Any]:
        """Return the fields of the journal's entry. ``compared`` are the figures of the test, if it compared."""
        fields: dict[str, Any] = {"facts": {**self.facts}}
        if compared is not None:
            fields |= {"metrics": compared.metrics, "samples": compared.samples}
            fields["facts"] |= compared.facts
        if self.faults:
            if len(self.faults) > 1:
                fields["facts"][FAULTS] = str(len(self.faults))
            only_assertions = all(asserted for asserted, _, _ in self.faults)
            fields["outcome"] = "fail" if only_assertions else "error"
            fields["stage"] = None if only_assertions else "launch"
            first = sorted(self.faults, key=lambda fault: fault[0])  # what is no assertion comes first
            fields["message"] = shortened("; ".join(dict.fromkeys(message for _, message, _ in first)))
            fields["detail"] = shortened("\n".join(dict.fromkeys(detail for _, _, detail in first)))
        elif self.reasons:
            fields |= {"outcome": "unavailable", "message": shortened("; ".join(self.reasons))}
        elif self.called:
            fields["outcome"] = "pass"
        else:
            fields |= {"outcome": "error", "stage": "launch", "message": "pytest has not said how this test ended"}
        return fields


def shortened(text: str) -> str:
    """Return a text; of a very long one the beginning and the end."""
    if len(text) <= MOST:
        return text
    return f"{text[: MOST // 2]}\n… {len(text) - MOST} characters are left out …\n{text[-MOST // 2 :]}"


def _fault(report: pytest.TestReport, error: BaseException | None) -> tuple[bool, str, str]:
    """Return whether a failed part failed by an assertion, its message, and pytest's text."""
    detail = report.longreprtext
    if error is None or isinstance(error, pytest.skip.Exception):  # a strict xfail that passed has no exception
        message = detail.strip().splitlines()[-1] if detail.strip() else "it failed, and pytest does not say why"
    else:
        message = "".join(traceback.format_exception_only(error)).strip()
    asserted = (error is None or isinstance(error, _ASSERTIONS)) and report.when == "call"
    return asserted, message if report.when == "call" else f"in its {report.when}: {message}", detail


def _reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped, without pytest's word before it."""
    longrepr = report.longrepr
    text = str(longrepr[2]) if isinstance(longrepr, tuple) else str(longrepr or "")
    return text.removeprefix("Skipped: ").strip()


def _words(reason: str) -> str:
    return " ".join(reason.removeprefix("reason: ").split()) or "it does not say why"
