"""Validate matrix.yaml."""

from __future__ import annotations

import argparse

from kernel_matrix import pipeline
from kernel_matrix.cli.options import add_matrix_options, load_project, selection_of
from kernel_matrix.results.compare import outputs_not_named

arguments = add_matrix_options


def main(options: argparse.Namespace) -> int:
    """Load, plan, and say how much that is."""
    planned = pipeline.plan_for(load_project(options), selection_of(options))
    print(f"{options.matrix}: {len(planned.cases)} cases in {len(planned.jobs)} jobs")
    print("".join(f"{sentence}\n" for sentence in outputs_not_named(planned)), end="")
    return 0
