"""The hooks of pytest by which a suite's comparisons are asked: in a job, and where a person asks for it."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from kernel_matrix.job.suite_canaries import OPTION
from kernel_matrix.job.suite_canaries.asking import FACT, Asking, OneAtATime

_SAID = "kernel_matrix_comparisons"  # an attribute of reports: it travels from the processes of xdist


def add_option(parser: pytest.Parser) -> None:
    """Add the option, which two plugins of one process may both do."""
    with contextlib.suppress(ValueError):
        parser.getgroup("kernel-matrix").addoption(
            OPTION,
            action="store_true",
            help="put known faults into copies of results, and tell which ones are not seen",
        )


def is_asked(options: Any) -> bool:
    """Return whether the option is given."""
    return bool(getattr(options, OPTION.removeprefix("--").replace("-", "_"), False))


def _is_to_fail(item: pytest.Item) -> bool:
    """Return whether a test is expected to fail in any case: no comparison can make it red."""
    marks = [] if item.config.getoption("runxfail", False) else item.iter_markers("xfail")
    always = any(not mark.args and not {"condition", "raises"} & mark.kwargs.keys() for mark in marks)
    return always or bool(getattr(getattr(item, "obj", None), "__unittest_expecting_failure__", False))


class Watching:
    """Ask the comparisons of each test, while pytest runs."""

    def __init__(self, suite: Path | None = None) -> None:
        """Watch modules from now on. ``suite`` is the folder of the suite, where it is known.

        Comparisons of arrays need NumPy. An environment without it has none.
        """
        self.asking = Asking(Path.cwd(), suite)
        self._finder = None
        if importlib.util.find_spec("numpy"):
            from kernel_matrix.job.suite_canaries import wrapping

            self._finder = wrapping.install()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Begin with a test."""
        self.asking.begin(str(item.path), getattr(item, "originalname", item.name))
        OneAtATime.asking = None if _is_to_fail(item) else self.asking

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what is known of the test's lines into its report."""
        report = yield
        if report.when == "teardown" and (fact := self.asking.facts().get(FACT)):
            setattr(report, _SAID, fact)
        return report

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print what the lines see, those that let most through first; a job keeps it in its journal."""
        if config.getoption("--kernel-matrix-suite", None):
            return
        from kernel_matrix.job.suite_canaries.summing import in_words, kinds, summed, without_time

        reports = [report for reports in terminalreporter.stats.values() for report in reports]
        facts = [getattr(report, _SAID, "") for report in reports]
        lines = summed(facts)
        if lines:
            seen, tried = kinds(lines)
            terminalreporter.section(f"its comparisons see {seen} of {tried} known faults")
        for line in lines:
            terminalreporter.line(in_words(line))
        for words in without_time(facts):
            terminalreporter.line(f"{words}.")

    def pytest_unconfigure(self) -> None:
        """Ask no more."""
        OneAtATime.asking = None
        if self._finder:
            self._finder.uninstall()
