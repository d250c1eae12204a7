"""List the expectations and exclusions of matrix.yaml with their state, and take out those that have ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.base.files import write_atomically
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.config.edits import edited
from kernel_matrix.report.ended import ended_lines, state_lines


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which results say what is fixed, and whether the edit is made."""
    add_matrix_options(parser)
    parser.add_argument("results", nargs="*", type=Path, help="results that say what no longer fails (build/results)")
    parser.add_argument("--write", action="store_true", help="make the edit in matrix.yaml; comments and layout stay")


def main(options: argparse.Namespace) -> int:
    """List the entries and print the edit, or make it. 1: an entry has ended and is still there."""
    project = load_project(options)
    states = pipeline.rule_states_of(project, options.results)
    ended = [state for state in states if state.state != "holds"]
    print("\n".join(state_lines(options.matrix, states)) or f"{options.matrix}: no expectation, and no exclusion")
    edits = [state.edit for state in ended if state.edit]
    if options.write and edits:
        write_atomically(options.matrix, edited(options.matrix.read_text(encoding="utf-8"), edits))
        print(f"written: {options.matrix}: {len(edits)} entries edited")
        return int(len(edits) < len(ended))
    print("\n".join(ended_lines(project.matrix.start, options.matrix, ended)), end="\n" if ended else "")
    return int(bool(ended))
