"""Ask GitHub, or a cluster, what became of each row's job, and wait until that is settled."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.base.files import write_atomically
from kernel_matrix.ci import cluster
from kernel_matrix.ci.cluster_options import ENGINES
from kernel_matrix.ci.services import github
from kernel_matrix.cli.options import add_matrix_options, load_project, selection_of
from kernel_matrix.machines import job_status, row_plan_file


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which plan, and where the answer goes."""
    add_matrix_options(parser)
    parser.add_argument("--plan", type=Path, required=True, help="the plan's file")
    parser.add_argument("--on", choices=ENGINES, help="ask this engine for the run that was submitted last")
    parser.add_argument("--write", type=Path, required=True, metavar="FILE", help="where the answer goes")


def main(options: argparse.Namespace) -> int:
    """Wait until all jobs have ended, or have waited too long for a machine."""
    project = load_project(options)
    row_plan = row_plan_file.from_json(options.plan, pipeline.plan_for(project, selection_of(options)))
    if options.on:
        statuses = cluster.statuses(project, options.on)
    else:
        run = github.this_run()
        statuses = job_status.wait(
            lambda: github.statuses(row_plan, github.ask(*run)), 60 * project.matrix.ci.queue_minutes
        )
    write_atomically(options.write, job_status.to_json(statuses))
    for status in statuses:
        print(" ".join(filter(None, (f"{status.row}:", status.status, status.conclusion, status.machine, status.why))))
    return 0
