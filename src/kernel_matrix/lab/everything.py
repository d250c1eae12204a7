"""All that this machine can do: run the jobs, probe the toolchains, and make the dashboard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernel_matrix import pipeline
from kernel_matrix.lab.dashboard import Dashboard, make_dashboard
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.results.compare import Comparison
from kernel_matrix.run.schedule import Progress, Settings
from kernel_matrix.vendors.machine import Machine


def run_everything(
    project: Project,
    selected: Selected,
    machine: Machine,
    settings: Settings,
    progress: Progress,
    *,
    expected: Sequence[str] = (),
    on_comparison: Callable[[Comparison], object],
    probe: Callable[[], object],
) -> Dashboard:
    """Run the selected jobs, then ``probe`` the toolchains, and write the dashboard of the whole plan.

    ``on_comparison`` gets the states of the selected cases when all jobs have ended; ``expected`` are ``FACT=VALUE``.

    Raises:
        UserError: another run is at one of the jobs, or a result has another value of a fact.
    """
    on_comparison(pipeline.run_and_compare(project, selected, machine, settings, progress, expected))
    probe()
    return make_dashboard(
        project, selected.plan, [project.results], row_plan=selected.row_plan, earlier=selected.earlier
    )
