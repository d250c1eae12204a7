"""The fixture ``matrix``: a suite's own test compares numbers with it, inside a job and outside.

    def test_norm(matrix):
        x = matrix.draw("x", (4, 64))
        matrix.compare(norm(x), exact_norm(x), eager=plain_norm(x), name="y")

Where kernel-matrix is installed, pytest finds this plugin by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kernel_matrix.job.suite_compare import Comparer

RUNNING = "kernel-matrix-suite"  # the name of the plugin that runs a job
COMPARED: pytest.StashKey[Any] = pytest.StashKey()


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
