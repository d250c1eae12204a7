"""The fixture ``matrix``: a suite's own test compares numbers with it, inside a job and outside.

    def test_norm(matrix):
        x = matrix.draw("x", (4, 64))
        matrix.compare(norm(x), exact_norm(x), eager=plain_norm(x), name="y")

Where kernel-matrix is installed, pytest finds this plugin by itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest

from kernel_matrix.job.test_names import SAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kernel_matrix.job.suite_compare import Comparer

RUNNING = "kernel-matrix-suite"  # the name of the plugin that runs a job
WATCHING = "kernel-matrix-canaries"  # the name of the plugin that asks the suite's own comparisons
COMPARED: pytest.StashKey[Any] = pytest.StashKey()
_FIGURES, _SAME = "kernel_matrix_figures", "kernel_matrix_same"  # attributes of reports


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which a suite's own comparisons are asked which faults they see."""
    from kernel_matrix.job.suite_canaries.plugin import add_option

    add_option(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Watch the functions that compare before the suite imports them, if that is asked."""
    from kernel_matrix.job.suite_canaries.plugin import Watching, is_asked

    options = early_config.known_args_namespace
    if is_asked(options):
        suite = getattr(options, "kernel_matrix_suite", None)
        early_config.pluginmanager.register(Watching(suite.resolve() if suite else None), WATCHING)


@pytest.fixture
def matrix(request: pytest.FixtureRequest) -> Comparer:
    """Return what compares the numbers of this test with their golden."""
    from kernel_matrix.job.suite_compare import Comparer  # it needs NumPy, which a suite need not have

    running = request.config.pluginmanager.get_plugin(RUNNING)
    case = getattr(running, "case", None)
    if case:
        comparer = Comparer(f"{case['op']}.{case['direction']}/{case['name']}", running.rules)  # type: ignore[union-attr]
    else:
        comparer = Comparer(request.node.nodeid, None)
    request.node.stash[COMPARED] = comparer
    return comparer


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Put the figures of a test's comparisons into its report, which also travels from the processes of xdist.

    An error of a comparison that the test caught counts all the same, and so it does where the test then skips itself.
    """
    outcome: Any = yield
    compared, report = item.stash.get(COMPARED, None), outcome.get_result()
    if not compared:
        return
    if report.when == "call":
        setattr(report, _FIGURES, dict(compared.metrics))
        setattr(report, _SAME, [name for name in compared.facts if name.startswith(SAME)])
    if report.when == "setup":
        return
    expected = report.skipped and hasattr(report, "wasxfail")
    if compared.faults and not report.failed and not expected:
        report.outcome = "failed"
        report.longrepr = f"the test caught the error of a comparison, which counts all the same: {compared.faults[0]}"
    compared.faults.clear()  # they are told


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one line for each output that was compared; a job keeps its figures in its journal, and prints none."""
    if config.pluginmanager.get_plugin(RUNNING):
        return
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, ())]
    lines = [line for report in reports for line in _lines(report)]
    if lines:
        terminalreporter.section("compared with a float64 golden")
    for line in lines:
        terminalreporter.line(line)


def _lines(report: Any) -> Iterator[str]:
    """Yield a line for each output that a test compared."""
    figures: Mapping[str, float] = getattr(report, _FIGURES, {})
    for output in (name.removesuffix(".elements") for name in figures if name.endswith(".elements")):
        error, limit, noise = (
            figures.get(f"{output}.{name}", math.nan) for name in ("max_abs", "limit_max_abs", "noise_ratio")
        )
        words = f"{report.outcome}  {report.nodeid} {output}: largest error {error:.2g}, limit {limit:.2g}"
        same = ", eager is the result bit by bit" if SAME + output in getattr(report, _SAME, ()) else ""
        yield words + ("" if math.isnan(noise) else f", noise {noise:.3g} ×") + same
