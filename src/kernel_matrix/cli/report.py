"""Make the dashboard from results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernel_matrix.cli.selection import add_matrix_options, build_folder, load_plan
from kernel_matrix.collect import collect
from kernel_matrix.compare import compare
from kernel_matrix.report import report
from kernel_matrix.report.document import headline


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which results."""
    add_matrix_options(parser)
    parser.add_argument("results", nargs="*", type=Path, help="folders or files of JUnit XML (build/results)")


def main(options: argparse.Namespace) -> int:
    """Collect, compare and report; 2 if a file could not be read."""
    matrix, planned = load_plan(options)
    build = build_folder(options)
    collected = collect(options.results or [build / "results"])
    comparison = compare(planned, collected.records)
    document = report(matrix, comparison, collected, build / "site")
    print(headline(document))
    print(f"dashboard: {build / 'site' / 'index.html'}")
    for problem in collected.broken:
        print(f"kernel-matrix: {problem}", file=sys.stderr)
    return 2 if collected.broken else int(comparison.is_red)
