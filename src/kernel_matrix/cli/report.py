"""Make the dashboard from results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernel_matrix.cli.selection import add_matrix_options, build_folder, load_plan
from kernel_matrix.collect import collect
from kernel_matrix.compare import compare
from kernel_matrix.probe import is_probe_record
from kernel_matrix.report import report
from kernel_matrix.report.document import headline
from kernel_matrix.report.toolchains import toolchain_view


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which results."""
    add_matrix_options(parser)
    parser.add_argument("results", nargs="*", type=Path, help="folders or files of JUnit XML (build/results)")


def main(options: argparse.Namespace) -> int:
    """Collect, compare and report; 2 if a file could not be read."""
    matrix, planned = load_plan(options)
    build = build_folder(options)
    collected = collect(options.results or [build / "results"])
    comparison = compare(planned, [record for record in collected.records if not is_probe_record(record)])
    toolchains = toolchain_view(matrix, options.matrix.parent.resolve(), collected.records)
    document = report(matrix, comparison, collected, build / "site", toolchains)
    print(headline(document))
    if toolchains["headline"]:
        print(toolchains["headline"])
    print(f"dashboard: {build / 'site' / 'index.html'}")
    for problem in collected.broken:
        print(f"kernel-matrix: {problem}", file=sys.stderr)
    return 2 if collected.broken else int(comparison.is_red or bool(toolchains["changed"]))
