"""The output that several commands share."""

from __future__ import annotations

import sys

from kernel_matrix.base.commands import here
from kernel_matrix.matrix.dashboard import Dashboard


def print_dashboard(dashboard: Dashboard) -> None:
    """Print what a dashboard shows, and which files could not be used for it."""
    print(here("\n".join(dashboard.lines)))
    for problem in dashboard.problems:
        print(f"kernel-matrix: {' '.join(problem.split())}", file=sys.stderr)
