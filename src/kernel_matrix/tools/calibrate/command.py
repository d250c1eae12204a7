"""Measure the noise of the quick cases over many seeds, and propose entries of matrix.yaml's accuracy."""

from __future__ import annotations

import argparse
import sys

from kernel_matrix.base.commands import command
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.numbers import whole
from kernel_matrix.cli.options import add_matrix_options, add_run_options, load_project, selection_of
from kernel_matrix.run.progress import Console
from kernel_matrix.run.settings import Settings
from kernel_matrix.tools.calibrate.calibrate import calibrate, seeded
from kernel_matrix.tools.calibrate.calibration_text import alarm_lines, as_json, markdown, proposed, yaml
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which cases, how many seeds, and where they run."""
    add_matrix_options(parser)
    parser.add_argument("--seeds", type=whole(1), default=20, help="how many seeds, from 0 on (20)")
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument("--op", action="append", help="only this operator, as 'op' or 'op.direction' (repeatable)")
    add_run_options(parser)


def main(options: argparse.Namespace) -> int:
    """Run, print the table and the proposals, and write both. 1: a case did not pass."""
    project, machine = load_project(options), detect()
    folder = project.apart("calibrate").build
    work = seeded(project, machine, options.seeds, selection_of(options), options.op or (), build=folder)
    for reason in work.left_out:
        print(f"left out: {reason}", file=sys.stderr)
    settings = Settings(project.root, folder, options.executor, max(1, options.jobs), options.resume)
    with Console(work.jobs) as console:
        calibration = calibrate(work, machine, settings, console)
    accuracy, line = project.matrix.accuracy, command(_words(options))
    table = markdown(calibration, options.seeds, line)
    entries = yaml(proposed(calibration, accuracy), calibration, options.seeds, line)
    print("\n".join([table, *alarm_lines(calibration), entries]))
    write_atomically(folder / "calibration.md", f"{table}\n```yaml\n{entries}```\n")
    write_atomically(folder / "calibration.json", as_json(calibration, accuracy, options.seeds, line))
    print(f"written: {folder / 'calibration.md'}, {folder / 'calibration.json'}")
    return int(bool(calibration.alarms))


def _words(options: argparse.Namespace) -> list[str]:
    """Return the words of the command that decide what is measured."""
    words = ["calibrate", "--seeds", str(options.seeds)]
    for name in ("platform", "toolchain", "op"):
        words += [word for value in getattr(options, name) or () for word in (f"--{name}", value)]
    return words
