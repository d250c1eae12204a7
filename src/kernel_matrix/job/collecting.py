"""Collect the tests of a suite: each runs once for every case of its operator in the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kernel_matrix.job.case import RunningCase
from kernel_matrix.job.case_end import plain
from kernel_matrix.job.exits import Reporting, report_of
from kernel_matrix.job.journal import Journal
from kernel_matrix.job.kernel_process import KernelProcess


class Collecting:
    """Parametrize the suite's tests with the job's cases, and journal that the suite does not import."""

    def __init__(self, job: Mapping[str, Any], journal: Journal, kernel_process: KernelProcess) -> None:
        """Give every case the journal, and the process in which its kernel runs."""
        self.job, self.journal, self.kernel_process = job, journal, kernel_process

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Give a test that asks for ``case`` the cases of its operator."""
        if "case" not in metafunc.fixturenames:
            return
        marks = {mark.args for mark in metafunc.definition.iter_markers("op")}
        cases = [case for case in self.job["cases"] if (case["op"], case["direction"]) in marks]
        parameters = [RunningCase(self.job, case, self.journal, self.kernel_process) for case in cases]
        metafunc.parametrize("case", parameters, ids=[case["id"] for case in cases])

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Keep the tests that run a case, in the job's order: the tests of one case follow each other."""
        order = {case["id"]: index for index, case in enumerate(self.job["cases"])}
        kept = [item for item in items if case_of(item)]
        config.hook.pytest_deselected(items=[item for item in items if not case_of(item)])
        items[:] = sorted(kept, key=lambda item: order[case_of(item).id])  # type: ignore[union-attr]

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Reporting:
        """Take the end of the process in a test file for an error of the file."""
        return (yield from report_of(collector))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Journal once that the suite does not import: it is an error of every case."""
        if report.failed:
            detail = str(report.longrepr)
            lines = [line for line in detail.splitlines() if line.strip()]
            message = lines[-1] if lines else "the suite does not import"
            self.journal.write("broken", message=plain(message), detail=detail)


class NoCases:
    """Deselect the tests that ask for a case: outside a job there is none."""

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Deselect the tests, so that pytest's closing line counts them."""
        kept = [item for item in items if "case" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def case_of(item: pytest.Item) -> RunningCase | None:
    """Return the case that the test runs; None if it runs none."""
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get("case") if callspec else None
    return case if isinstance(case, RunningCase) else None  # pytest puts a marker of its own for "no parameters"
