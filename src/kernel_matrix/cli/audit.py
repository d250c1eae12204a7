"""Hold the dashboard to the results that it was made from: every figure is computed anew."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.audit import audit
from kernel_matrix.base.commands import here
from kernel_matrix.cli.options import add_matrix_options, load_project, selection_of
from kernel_matrix.machines import row_plan_file
from kernel_matrix.store.names import demand_folders

_STALE = (
    "What is stale follows from the files of today. If one has changed since the page was made, make it anew: "
    "`kernel-matrix report`"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which results, and which dashboard."""
    add_matrix_options(parser)
    parser.add_argument("results", nargs="*", type=Path, help="the results of the dashboard (build/results)")
    parser.add_argument("--plan", type=Path, help="the plan's file, if the dashboard was made with one")
    parser.add_argument("--site", type=Path, help="the folder of the dashboard (build/site)")


def main(options: argparse.Namespace) -> int:
    """Print each difference; 1 if there is one."""
    project = load_project(options)
    asked = None
    if options.plan:
        row_plan = row_plan_file.from_json(options.plan, pipeline.plan_for(project, selection_of(options)))
        asked = row_plan.row_of().keys()
    folders, site = options.results or [project.results], options.site or project.site
    demand_folders(folders)
    differences = audit(site, folders, project.matrix, project.root, asked)
    print("\n".join(differences) or f"all figures of {site} follow from the results")
    if any(": stale: " in one for one in differences):
        print(here(_STALE))
    return int(bool(differences))
