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

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernel_matrix.job.suite_compare import Comparer

RUNNING = "kernel-matrix-suite"  # the name of the plugin that runs a job
COMPARED: pytest.StashKey[Any] = pytest.StashKey()
_FIGURES = "kernel-matrix figures"


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
    """Put the figures of a test's comparisons into its report, which also travels from the processes of xdist."""
    outcome: Any = yield
    compared = item.stash.get(COMPARED, None)
    if compared and outcome.get_result().when == "call":
        outcome.get_result().user_properties.append((_FIGURES, dict(compared.metrics)))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print one line for each output that was compared; a job keeps its figures in its journal, and prints none."""
    if config.pluginmanager.get_plugin(RUNNING):
        return
    rows = [
        (report.outcome, f"{report.nodeid} {output}", figures)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        for name, figures in report.user_properties
        if name == _FIGURES
        for output in (key.removesuffix(".elements") for key in figures if key.endswith(".elements"))
    ]
    if rows:
        terminalreporter.section("compared with a float64 golden")
    for outcome, title, figures in rows:
        output = title.rpartition(" ")[2]
        error, limit, noise = (
            figures.get(f"{output}.{name}", math.nan) for name in ("max_abs", "limit_max_abs", "noise_ratio")
        )
        words = f"{outcome}  {title}: largest error {error:.2g}, limit {limit:.2g}"
        terminalreporter.line(words + ("" if math.isnan(noise) else f", noise {noise:.3g} ×"))
