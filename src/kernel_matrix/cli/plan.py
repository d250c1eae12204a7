"""Print the ids of all planned cases."""

from __future__ import annotations

import argparse

from kernel_matrix.cli.selection import add_matrix_options, load_plan

arguments = add_matrix_options


def main(options: argparse.Namespace) -> int:
    """One id a line."""
    for case in load_plan(options)[1].cases:
        print(case.id)
    return 0
