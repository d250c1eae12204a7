"""Read JUnit XML that another tool has written, and keep each of its tests as a case of one toolchain."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.adopt.other_tools import take
from kernel_matrix.base.commands import command, line_here
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which files, and whose results they are."""
    add_matrix_options(parser)
    parser.add_argument("--platform", required=True, help="the platform that the tests ran on")
    parser.add_argument("--toolchain", required=True, help="the toolchain that they ran with")
    parser.add_argument(
        "--reruns",
        action="store_true",
        help="what comes again by its name in a suite is the same test, run again: the last counts, and is flaky",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, help="JUnit XML, as the tool has written it; or a folder of such files"
    )


def main(options: argparse.Namespace) -> int:
    """Write the results, and say where."""
    project, place = load_project(options), (options.platform, options.toolchain, detect())
    taken = take(project, options.files, *place, are_attempts=options.reruns)
    for note in taken.notes:
        print(note)
    print(f"{taken.path}: this shows it: {line_here(command(['report']), project.options)}")
    return 0
