"""Run a few cases with compile caches that are cold, warm, shared, old, cut short, read-only and full."""

from __future__ import annotations

import argparse
import time

from kernel_matrix.cli.options import add_matrix_options, add_selection_options, load_project, selection_of
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check
from kernel_matrix.run.progress import Lines
from kernel_matrix.run.settings import EXECUTORS
from kernel_matrix.tools.caches.explained import explanations
from kernel_matrix.tools.caches.kinds import KINDS
from kernel_matrix.tools.caches.lanes import lanes_of, variables_of
from kernel_matrix.tools.caches.try_kinds import check_of, tried
from kernel_matrix.vendors.machine import detect

_SHOWN = 6  # lines of a finding


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which kinds of cache, which cases, and where they run."""
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), help="only this kind of cache (repeatable)")
    parser.add_argument("--most", type=int, default=3, help="how many cases of each toolchain (3)")
    add_matrix_options(parser)
    add_selection_options(parser)
    parser.add_argument(
        "--executor", choices=[name for name in EXECUTORS if name != "container"], default="venv", help="where it runs"
    )


def main(options: argparse.Namespace) -> int:
    """Try each lane with each kind, print what is different, and write it. 1: something is not explained."""
    project, machine, began = load_project(options), detect(), time.time()
    known, kinds = explanations(project), tuple(dict.fromkeys(options.kind or KINDS))
    variables_of(project)
    lanes = lanes_of(project, machine, selection_of(options), max(1, options.most), options.executor, Lines())
    results = [tried(lane, kinds) for lane in lanes]
    device = ", ".join(device.name for device in machine.devices)
    of_kinds = [check_of(project, name, [one[name] for one in results], began, known, device) for name in kinds]
    for check in of_kinds:
        print("\n".join(lines(check)))
        print(f"written: {checks.write(check, project.build, check.name.replace(' ', '-'))}")
    return int(any(check.is_red for check in of_kinds))


def lines(check: Check) -> list[str]:
    """Return what a person reads of one kind: a line for each cell, and the findings, each kind once."""
    text = [f"{check.name}: {check.sees}", *([f"  {check.note}"] if check.note else [])]
    text += [cell.line("the same", "different") for cell in check.cells]
    text += [f"  without an end: {line.splitlines()[0]}" for line in check.unfinished]
    firsts = {one.text.splitlines()[0]: one for one in reversed(check.findings)}
    for finding in reversed(firsts.values()):
        text += [finding.case, *(f"    {line}" for line in finding.text.splitlines()[:_SHOWN])]
        text += [f"    explained: {finding.explained}"] if finding.explained else []
    return text
