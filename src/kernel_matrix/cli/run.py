"""Run what this machine can of the plan, and say what it cannot."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernel_matrix import pipeline
from kernel_matrix.base.commands import here
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.words import counted
from kernel_matrix.cli.options import (
    add_matrix_options,
    add_run_options,
    add_selection_options,
    project_to_run,
    settings_of,
)
from kernel_matrix.pipeline import Project, Selected
from kernel_matrix.results.passed import passed_at_once
from kernel_matrix.run.decide import preview
from kernel_matrix.run.progress import Console
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to run, and where."""
    add_matrix_options(parser)
    add_selection_options(parser)
    add_run_options(parser)
    parser.add_argument("--write-cases", type=Path, metavar="FILE", help="write the cases' ids, for report --cases")
    parser.add_argument(
        "--gathered", action="store_true", help="a report gathers the results: what passed is not judged here, too"
    )


def main(options: argparse.Namespace) -> int:
    """Run the jobs, and say what is red."""
    project, selected = project_to_run(options)
    if options.write_cases:
        write_atomically(options.write_cases, "".join(f"{case.id}\n" for case in selected.part.cases))
    machine = detect()
    settings = replace(settings_of(options, project, selected), gathered=options.gathered)
    with Console(selected.jobs) as console:
        for line in preview(project.matrix, selected.jobs, machine, options.executor, project.root):
            console.say(here(line))
        files = pipeline.run_selected(project, selected, machine, settings, console)
    if options.gathered and not options.expect and passed_at_once(files, selected.part.cases):
        print(f"{counted(len(selected.part.cases), 'case')}: all passed; the report judges them")
        return 0
    return _judge(options, project, selected, files)


def _judge(options: argparse.Namespace, project: Project, selected: Selected, files: Sequence[Path]) -> int:
    """Say what is red, and return the exit status."""
    from kernel_matrix import judging  # DuckDB, pyarrow and NumPy take long to import
    from kernel_matrix.report.terminal import ended_lines, summary
    from kernel_matrix.results import repeat

    with judging.judged(project, selected.part, files) as judged:
        repeat.check(judged.of_cases() if options.expect else (), options.expect or ())
        lines = summary(project.matrix, judged, lambda: project.rules, project.options)
        print(here("\n".join([*lines, *ended_lines(project.file, judged.ended)])))
        return int(judged.is_red or judged.is_empty)
