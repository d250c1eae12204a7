"""Print two cells side by side: which outputs have the same bits, how far apart the others are, and where first."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernel_matrix import judging
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.report.terminal import side_by_side


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose results and cells."""
    add_matrix_options(parser)
    parser.add_argument("one", metavar="A", help="a cell or a case, by its id")
    parser.add_argument("other", metavar="B", help="another cell or case of the same operator")
    parser.add_argument("results", nargs="*", type=Path, help="folders or files of JUnit XML (build/results)")


def main(options: argparse.Namespace) -> int:
    """Print them; 2 if a file of results could not be read."""
    project = load_project(options)
    pairs, broken = judging.compare_cells(
        project, options.tier or "full", options.one, options.other, options.results or [project.results]
    )
    for sentence in broken:
        print(f"kernel-matrix: {sentence}", file=sys.stderr)
    print("\n".join(side_by_side(options.one, options.other, pairs)))
    return 2 if broken else 0
