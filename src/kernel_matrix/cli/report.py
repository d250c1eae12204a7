"""Make the dashboard from results."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.collection import many_objects_that_stay
from kernel_matrix.cli.options import add_matrix_options, load_project, print_dashboard, selection_of
from kernel_matrix.machines import job_status, row_plan_file, row_times
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.report import support
from kernel_matrix.report.annotations import of_report
from kernel_matrix.results import history
from kernel_matrix.store.ahead import checked_ahead
from kernel_matrix.store.validation import STREAMED


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which results, and what they are compared with."""
    add_matrix_options(parser)
    parser.add_argument("results", nargs="*", type=Path, help="folders or files of results (build/results)")
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--plan", type=Path, help="the plan's file: results are taken only from its jobs")
    part.add_argument("--cases", type=Path, metavar="FILE", help="only these cases, one id a line: run --write-cases")
    parser.add_argument("--statuses", type=Path, help="what became of the jobs, from kernel-matrix ci jobs")
    parser.add_argument(
        "--history",
        type=Path,
        help="a site or tables of earlier runs, for since when a lane is silent",
    )
    parser.add_argument(
        "--against", type=Path, help="the site of an earlier run: the summary says what differs from it"
    )
    parser.add_argument(
        "--junit", action="store_true", help="also write all results as one JUnit file into the site (takes long)"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table of what runs where, for a README")
    parser.add_argument("--annotate", action="store_true", help="print GitHub's annotations of what is red")


def main(options: argparse.Namespace) -> int:
    """Make the dashboard; 2 if a file could not be read."""
    ahead = [] if options.cases else options.results  # which files some cases touch is known when they are planned
    with checked_ahead(ahead, STREAMED), many_objects_that_stay():
        project = load_project(options)
        selection = selection_of(options)
        planned = pipeline.plan_of(project, options.cases) if options.cases else pipeline.plan_for(project, selection)
        folders = options.results or [project.results]
        earlier = history.with_former(history.read(options.history), folders)
        row_plan = row_plan_file.from_json(options.plan, planned) if options.plan else None
        statuses = job_status.read(options.statuses) if row_plan and options.statuses else {}
        results = judging.judged(
            project,
            planned,
            folders,
            row_plan=row_plan,
            statuses=statuses,
            earlier=earlier,
            touching=options.cases is not None,
        )
        with results as judged:
            dashboard = write_dashboard(
                project,
                judged,
                earlier=earlier,
                against=options.against,
                left_out=row_plan.left_out if row_plan else 0,
                with_junit=options.junit,
            )
            notes = of_report(project.file, project.matrix, judged) if options.annotate else []
    if row_plan and statuses:
        row_times.write(project.site, row_plan, statuses)
    if options.markdown:
        print((project.site / support.FILE).read_text(encoding="utf-8"))
        return dashboard.exit_status
    print_dashboard(dashboard)
    if notes:
        print("\n".join(notes))
    return dashboard.exit_status
