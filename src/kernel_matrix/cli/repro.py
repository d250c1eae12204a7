"""Print the one command that repeats a cell, or say what hardware it needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix import judging
from kernel_matrix.base.commands import command, line_here
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.results import repeat
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose results and a cell."""
    add_matrix_options(parser)
    parser.add_argument("cell", help="a cell or a case, by its id; or the name of a case of the fuzzer")
    parser.add_argument("results", nargs="*", type=Path, help="folders or files of results (build/results)")


def main(options: argparse.Namespace) -> int:
    """Print the facts as comments, then the command. 1: this machine lacks the hardware."""
    project = load_project(options)
    if words := repeat.of_fuzzer(options.cell):
        print(line_here(command(words), project.options))
        return 0
    record = judging.result_to_repeat(
        project, options.tier or "full", options.cell, options.results or [project.results]
    )
    for line in repeat.facts(project.matrix, options.cell, record):
        print(f"# {line}")
    lacking = repeat.needs(project.matrix, options.cell, record, detect())
    if lacking:
        print(f"# {lacking}")
    print(line_here(repeat.Commands(project.matrix).command(options.cell, record), project.options))
    return 1 if lacking else 0
