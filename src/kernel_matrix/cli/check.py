"""Validate matrix.yaml and its locks, and say which of its expectations and exclusions have ended."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.commands import here
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.words import counted
from kernel_matrix.cli.options import add_matrix_options, load_project, selection_of
from kernel_matrix.config.checks import files
from kernel_matrix.config.checks.names import unknown_targets
from kernel_matrix.config.edits import edited
from kernel_matrix.config.load import schema
from kernel_matrix.config.lock_faults import lock_faults
from kernel_matrix.config.plan import outputs_not_named
from kernel_matrix.report.terminal import ended_lines, state_lines


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: what is checked, and whether an edit is made."""
    add_matrix_options(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--expectations", action="store_true", help="list all expectations and exclusions with their state"
    )
    form.add_argument(
        "--schema",
        nargs="?",
        const="matrix",
        choices=("matrix", "compat"),
        help="print the JSON Schema of matrix.yaml, or of compat.json",
    )
    parser.add_argument(
        "--write", action="store_true", help="with --expectations: take out what has ended; comments and layout stay"
    )
    parser.add_argument(
        "results", nargs="*", type=Path, help="for --expectations: results that say what is mended (build/results)"
    )


def main(options: argparse.Namespace) -> int:
    """Say how much is planned, what has ended, and which lock is wrong. 1: one is, or an entry that ended is there."""
    if (options.write or options.results) and not options.expectations:
        raise UserError("--write and results are for `kernel-matrix check --expectations`.")
    if options.schema:
        from kernel_matrix.report import document  # it takes long to import

        print((document.schema if options.schema == "compat" else schema)(), end="")
        return 0
    return _list(options) if options.expectations else _check(options)


def _check(options: argparse.Namespace) -> int:
    """Load, plan, say how much that is, and what is wrong."""
    project = load_project(options)
    if project.matrix.package.rules:
        _ = project.rules  # a report reads them only where it has an error
    planned = pipeline.plan_for(project, selection_of(options))
    print(f"{options.matrix}: {counted(len(planned.cases), 'case')} in {counted(len(planned.jobs), 'job')}")
    unseen = files.ignored(project.matrix, project.root, project.file)
    notes = [*outputs_not_named(planned), *unknown_targets(project.matrix), *unseen]
    print("".join(f"{sentence}\n" for sentence in notes), end="")
    states = judging.rule_states(project, {}, judging.clock().date())
    ended = ended_lines(project.file, [state for state in states if state.state != "holds"])
    faults = [*ended, *lock_faults(project.matrix, project.root)]
    print(here("\n".join(faults)), end="\n" if faults else "")
    return int(bool(faults))


def _list(options: argparse.Namespace) -> int:
    """List the entries and print the edit, or make it."""
    project = load_project(options)
    states = judging.rule_states_of(project, options.results)
    ended = [state for state in states if state.state != "holds"]
    print("\n".join(state_lines(options.matrix, states)) or f"{options.matrix}: no expectation, and no exclusion")
    edits = [state.edit for state in ended if state.edit]
    if options.write and edits:
        write_atomically(options.matrix, edited(options.matrix.read_text(encoding="utf-8"), edits))
        print(f"written: {options.matrix}: {len(edits)} entries edited")
        return int(len(edits) < len(ended))
    print(here("\n".join(ended_lines(options.matrix, ended))), end="\n" if ended else "")
    return int(bool(ended))
