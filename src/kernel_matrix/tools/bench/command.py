"""Time the kernels and their rivals on this machine's devices, and add the results to the results of the matrix."""

from __future__ import annotations

import argparse
import math

from kernel_matrix.base.numbers import above_zero, whole
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.run.settings import EXECUTORS
from kernel_matrix.tools.bench.run import Wish, bench
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to time, and where."""
    add_matrix_options(parser)
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument("--case", action="append", metavar="TEXT", help="only cases with this in their id (repeatable)")
    parser.add_argument("--rival", action="append", help="compare with this rival alone (repeatable)")
    parser.add_argument(
        "--quick", action="store_true", help="small shapes and few samples, to see that all of it works"
    )
    parser.add_argument("--shapes", default="", metavar="NAME", help="the shapes of this list of bench.more alone")
    parser.add_argument(
        "--compile",
        type=whole(0),
        default=0,
        metavar="N",
        help="first compile what the timing needs, in N processes at a time",
    )
    parser.add_argument(
        "--limit",
        type=above_zero,
        default=math.inf,
        metavar="SECONDS",
        help="of the timing of an environment; what is left then is missing",
    )
    parser.add_argument(
        "--executor",
        choices=[name for name in EXECUTORS if name != "container"],
        default="venv",
        help="an environment for each lock, or this interpreter",
    )


def main(options: argparse.Namespace) -> int:
    """Time what the options name. The status is 1 if a kernel is wrong or an error came."""
    from kernel_matrix.store.load import collect

    project = load_project(options)
    wish = Wish(
        tuple(options.platform or ()),
        tuple(options.toolchain or ()),
        tuple(options.case or ()),
        tuple(options.rival or ()),
        options.quick,
        options.executor,
        options.compile,
        options.shapes,
        options.limit,
    )
    files = bench(project, detect(), wish)
    for file in files:
        print(f"wrote {file}")
    return int(any(record.outcome in ("fail", "error", "missing") for record in collect(files).records))
