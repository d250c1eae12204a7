"""Run everything, probe the toolchains, then report."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kernel_matrix.base.commands import here
from kernel_matrix.cli.options import (
    add_matrix_options,
    add_run_options,
    add_selection_options,
    print_dashboard,
    project_to_run,
    settings_of,
)
from kernel_matrix.matrix.everything import run_everything
from kernel_matrix.matrix.kept import Keeper
from kernel_matrix.probes.probe_toolchains import probing
from kernel_matrix.report.terminal import summary
from kernel_matrix.run.decide import preview
from kernel_matrix.run.progress import Console
from kernel_matrix.vendors.machine import detect

if TYPE_CHECKING:  # DuckDB takes long to import
    from kernel_matrix.results.judged import Judged


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to run, and where."""
    add_matrix_options(parser)
    add_selection_options(parser)
    add_run_options(parser)
    parser.add_argument("--anew", action="store_true", help="run all, also the jobs of which nothing has changed")


def main(options: argparse.Namespace) -> int:
    """Run jobs and probes, and make the dashboard. The dashboard has everything red, so its exit status counts."""
    project, selected = project_to_run(options)
    machine = detect()

    keeper = None if options.anew or options.resume else Keeper(project, machine)
    executor = "current" if options.executor == "current" else "venv"
    with Console(selected.jobs) as console:
        for line in preview(project.matrix, selected.jobs, machine, options.executor, project.root):
            console.say(here(line))

        def show(judged: Judged) -> None:
            for line in summary(project.matrix, judged, lambda: project.rules, project.options):
                console.say(here(line))

        toolchains = sorted({job.toolchain for job in selected.jobs})
        probes = probing(project, toolchains, machine, executor, console.say, keeper, tier=selected.plan.tier)
        dashboard = run_everything(
            project,
            selected,
            machine,
            settings_of(options, project, selected),
            console,
            expected=options.expect or (),
            on_judged=show,
            probes=probes,
            keeper=keeper,
        )
    print_dashboard(dashboard)
    return dashboard.exit_status
