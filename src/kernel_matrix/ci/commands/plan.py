"""Print the plan: the ids of its cases, or its rows for the CI service that starts machines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.words import counted
from kernel_matrix.ci import cluster, cost, services
from kernel_matrix.ci.cluster_options import ENGINES
from kernel_matrix.ci.event_plan import EventPlan, describe, plan_rows
from kernel_matrix.ci.loosened import loosened_table, since_commit
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.machines.row_plan_file import to_json
from kernel_matrix.pipeline import Project


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: for which event and CI service."""
    add_matrix_options(parser)
    parser.add_argument("--event", help="an event of matrix.yaml's ci.events, which says tier and toolchains")
    parser.add_argument("--changed-since", metavar="REF", help="only what the changes since REF concern, and sentinels")
    parser.add_argument("--limits-since", metavar="REF", help="print what became looser in matrix.yaml since REF; "
                        "--changed-since does so too")  # fmt: skip
    parser.add_argument("--summary", type=Path, metavar="FILE", help="append what became looser to this file, too")
    parser.add_argument("--hosted-only", action="store_true", help="nothing on machines of one's own")
    parser.add_argument("--history", type=Path, help="results of an earlier run, for the time that cases take")
    parser.add_argument("--labels", default="[]", metavar="JSON", help="labels of a pull request, a list in JSON: "
                        "'matrix: gfx942' asks for this target alone")  # fmt: skip
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the rows with all cases, for run and report")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--rows", action="store_true", help="print the rows for people")
    for name in services.NAMES:
        form.add_argument(f"--{name}", dest="service", action="store_const", const=name, help=f"print them for {name}")

    form.add_argument("--on", choices=ENGINES, help="print the script that submits them to this engine")


def main(options: argparse.Namespace) -> int:
    """Plan, write the file that is asked for, and print."""
    project = load_project(options)
    if options.on:
        print(cluster.script(options, project, lambda text: print(text, file=sys.stderr)), end="")
        return 0
    planned = plan_rows(
        project,
        event=options.event,
        tier=options.tier,
        changed_since=options.changed_since,
        hosted_only=options.hosted_only,
        earlier=options.history,
        labels=options.labels,
    )
    row_plan = planned.rows
    if options.write:
        write_atomically(options.write, to_json(row_plan))
    _print_loosened(project, options)
    if options.service:
        print(services.render(options.service, project.matrix, row_plan), end="")
    elif options.rows:
        print("\n".join(_for_people(project, planned)))
    else:
        print("\n".join(case.id for job in row_plan.jobs for case in job.cases))
    return 0


def _for_people(project: Project, planned: EventPlan) -> Iterator[str]:
    """Yield the rows in words, what they cost, and what is left out."""
    matrix, row_plan, known = project.matrix, planned.rows, planned.known
    for row in row_plan.rows:
        yield describe(row_plan, row)
    for platform, rows in services.images(matrix, row_plan).items():
        yield f"the image of {platform} is made once, for {counted(rows, 'row')}"
    yield from cost.lines(row_plan, cost.by_lane(row_plan, planned.seconds, known.seconds), known.setup)
    yield from (*planned.sentences, *row_plan.notes)
    cases = sum(len(job.cases) for job in row_plan.jobs)
    every = counted(cases + row_plan.left_out, "case")
    yield f"{counted(len(row_plan.rows), 'row')}; {row_plan.left_out} of {every} not asked for"


def _print_loosened(project: Project, options: argparse.Namespace) -> None:
    """Print what became looser in matrix.yaml; to the standard error if a program reads the output."""
    since = options.limits_since or options.changed_since
    if not since:
        return
    found = since_commit(project, since)
    print(loosened_table(found, since, str), file=sys.stdout if options.rows else sys.stderr)
    if options.summary:
        with options.summary.open("a", encoding="utf-8") as summary:
            summary.write(f"{loosened_table(found, since)}\n")
