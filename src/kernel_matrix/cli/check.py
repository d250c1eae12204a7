"""Validate matrix.yaml, and say which of its expectations and exclusions have ended."""

from __future__ import annotations

import argparse

from kernel_matrix import pipeline
from kernel_matrix.base.counted import counted
from kernel_matrix.cli.options import add_matrix_options, load_project, selection_of
from kernel_matrix.report.ended import ended_lines
from kernel_matrix.results.compare import outputs_not_named

arguments = add_matrix_options


def main(options: argparse.Namespace) -> int:
    """Load, plan, and say how much that is. 1: an expectation or an exclusion has ended."""
    project = load_project(options)
    planned = pipeline.plan_for(project, selection_of(options))
    print(f"{options.matrix}: {counted(len(planned.cases), 'case')} in {counted(len(planned.jobs), 'job')}")
    print("".join(f"{sentence}\n" for sentence in outputs_not_named(planned)), end="")
    states = pipeline.rule_states(project, {}, pipeline.clock().date())
    ended = ended_lines(project.matrix.start, project.file, [state for state in states if state.state != "holds"])
    print("\n".join(ended), end="\n" if ended else "")
    return int(bool(ended))
