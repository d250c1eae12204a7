"""Validate matrix.yaml."""

from __future__ import annotations

import argparse

from kernel_matrix.cli.selection import add_matrix_options, load_plan

arguments = add_matrix_options


def main(options: argparse.Namespace) -> int:
    """Load, plan, and say how much that is."""
    _, planned = load_plan(options)
    print(f"{options.matrix}: {len(planned.cases)} cases in {len(planned.jobs)} jobs")
    return 0
