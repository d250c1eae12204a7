"""The options that several commands share, the values that they stand for, and the output of a dashboard."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_matrix import pipeline
from kernel_matrix.base.commands import here
from kernel_matrix.base.numbers import whole
from kernel_matrix.config.load import MATRIX_FILE
from kernel_matrix.config.selection import Selection, parse_shard
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.run.progress import Lines
from kernel_matrix.run.settings import AUTO, EXECUTORS, Settings
from kernel_matrix.vendors.machine import detect

if TYPE_CHECKING:  # it takes long to import
    from kernel_matrix.matrix.dashboard import Dashboard


def add_matrix_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that reads matrix.yaml."""
    parser.add_argument("--matrix", type=Path, default=Path(MATRIX_FILE), help="the configuration")
    parser.add_argument("--build", type=Path, default=None, help="where everything is written (build in its folder)")
    parser.add_argument("--tier", choices=("quick", "full"), default=None, help="quick (the default) or all cases")


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that take a part of the plan."""
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument(
        "--case",
        action="append",
        help="only this case, of any tier, or cell, by its id; * stands for any text (repeatable)",
    )
    parser.add_argument("--changed-since", metavar="REF", help="only what the changes since REF concern, and sentinels")
    parser.add_argument("--shard", metavar="K/N", help="the K-th of N parts that take about as long")
    parser.add_argument(
        "--sample", type=whole(1), metavar="N", help="N tests of each job, spread over its files and parameters"
    )
    parser.add_argument("--history", type=Path, help="results of an earlier run, for the time that cases take")
    parser.add_argument("--plan", type=Path, help="a plan's file, whose row --row names")
    parser.add_argument("--row", help="only this row of the plan's file")


def load_project(options: argparse.Namespace) -> Project:
    """Load the matrix.yaml that the options name.

    Raises:
        UserError: the file cannot be used.
    """
    named = vars(options)  # "before" and "now" are the two runs that diff compares
    given = [Path(name) for name in (*(named.get("results") or ()), named.get("before"), named.get("now")) if name]
    return pipeline.load(options.matrix, options.build, [path for path in given if path.exists()])


def selection_of(options: argparse.Namespace) -> Selection:
    """Return the part of the plan that the options ask for; a command may have only some of these options.

    Raises:
        UserError: ``--shard`` is not K/N.
    """
    given = {name: value for name, value in vars(options).items() if value is not None}
    return Selection(
        tier=given.get("tier"),
        platforms=tuple(given.get("platform", ())),
        toolchains=tuple(given.get("toolchain", ())),
        cases=tuple(given.get("case", ())),
        changed_since=given.get("changed_since"),
        shard=parse_shard(given["shard"]) if "shard" in given else None,
        sample=given.get("sample"),
        history=given.get("history"),
        row_plan=given.get("plan"),
        row=given.get("row"),
    )


def add_run_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that runs jobs."""
    parser.add_argument(
        "--executor",
        choices=(AUTO, *EXECUTORS),
        default=AUTO,
        help="where the jobs run (auto: in containers where an engine answers)",
    )
    parser.add_argument("--jobs", type=whole(1), default=os.cpu_count() or 1, help="how many jobs at a time")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run has finished")
    parser.add_argument("--excluded", action="store_true", help="try the excluded cases too")
    parser.add_argument(
        "--no-canaries", action="store_true", help="ask a suite's own comparisons nothing about faults that are put in"
    )
    parser.add_argument("--expect", action="append", metavar="FACT=VALUE", help="refuse results with another value")


def project_to_run(options: argparse.Namespace) -> tuple[Project, Selected]:
    """Load the project, find out which tests its suite has if these are its cases, and select what is asked for.

    Raises:
        UserError: the file or an option cannot be used, or another run is at one of the jobs.
    """
    project, selection = pipeline.load(options.matrix, options.build, None), selection_of(options)
    settings = Settings(project.root, project.build, options.executor)
    project = pipeline.collect_tests(project, selection, detect(), settings, Lines())
    return project, pipeline.select(project, selection)


def settings_of(options: argparse.Namespace, project: Project, selected: Selected) -> Settings:
    """Return how the jobs are to run. Excluded cases are tried if the options or the row plan say so."""
    return Settings(
        project.root,
        project.build,
        options.executor,
        max(1, options.jobs),
        options.resume,
        options.excluded or selected.excluded,
        not options.no_canaries,
    )


def print_dashboard(dashboard: Dashboard) -> None:
    """Print what a dashboard shows, and which files could not be used for it."""
    print(here("\n".join(dashboard.lines)))
    for problem in dashboard.problems:
        print(f"kernel-matrix: {' '.join(problem.split())}", file=sys.stderr)
