"""Make the dashboard from results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from kernel_matrix.cli.selection import add_matrix_options, build_folder, load_plan
from kernel_matrix.config.model import Matrix
from kernel_matrix.lab.probe import is_probe_record
from kernel_matrix.lab.toolchain_view import toolchain_view
from kernel_matrix.machines import job_status as lookout
from kernel_matrix.machines import row_plan as spread
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.report.annotations import annotate
from kernel_matrix.report.document import document, headline
from kernel_matrix.report.site import report
from kernel_matrix.results import difference, history
from kernel_matrix.results.collect import collect
from kernel_matrix.results.compare import compare
from kernel_matrix.results.validation import Asked


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which results, and what they are held against."""
    add_matrix_options(parser)
    parser.add_argument("results", nargs="*", type=Path, help="folders or files of JUnit XML (build/results)")
    parser.add_argument("--plan", type=Path, help="the plan's file: results are taken only from its jobs")
    parser.add_argument("--statuses", type=Path, help="what became of the jobs, from kernel-matrix jobs")
    parser.add_argument("--history", type=Path, help="the site of an earlier run, for since when a lane is silent")
    parser.add_argument(
        "--against", type=Path, help="the site of an earlier run: the summary says what differs from it"
    )
    parser.add_argument("--annotate", action="store_true", help="print GitHub's annotations of what is red")


def main(options: argparse.Namespace) -> int:
    """Collect, compare and report; 2 if a file could not be read."""
    matrix, planned = load_plan(options)
    build = build_folder(options)
    earlier = history.read(options.history)
    made = spread.from_json(options.plan, planned) if options.plan else None
    if made:
        planned = spread.planned_by(made, planned)
    collected = collect(options.results or [build / "results"], _asked(matrix, made))
    records = [record for record in collected.records if not is_probe_record(record)]
    if made:
        known: Mapping[str, lookout.JobStatus] = lookout.read(options.statuses) if options.statuses else {}
        minutes = matrix.ci.queue_minutes
        records = lookout.only_compiled(made, records)
        records += lookout.absences(made, collected.records, known, earlier, collected.refused, minutes)
    comparison = compare(planned, records)
    changed = None
    if options.against:
        cells = document(matrix, comparison, collected)["cells"]
        changed = difference.difference(difference.read(options.against), cells)
    left_out = made.left_out if made else 0
    toolchains = toolchain_view(matrix, options.matrix.parent.resolve(), collected.records)
    whole = report(
        matrix,
        comparison,
        collected,
        build / "site",
        earlier=earlier,
        difference=changed,
        left_out=left_out,
        toolchains=toolchains,
    )
    print(headline(whole))
    if toolchains["headline"]:
        print(toolchains["headline"])
    print(f"dashboard: {build / 'site' / 'index.html'}")
    if options.annotate:
        print("\n".join(annotate(comparison, matrix.package.suite)))
    for problem in (*collected.broken, *earlier.problems):
        print(f"kernel-matrix: {' '.join(problem.split())}", file=sys.stderr)
    return 2 if collected.broken else int(comparison.is_red or bool(toolchains["changed"]))


def _asked(matrix: Matrix, made: RowPlan | None) -> dict[str, Asked] | None:
    if made is None:
        return None
    return {
        job.id: Asked(
            row.id,
            {case.id for case in job.cases},
            row.own or matrix.platforms[row.platform].device == "cpu",
        )
        for row in made.rows
        for job in row.jobs
    }
