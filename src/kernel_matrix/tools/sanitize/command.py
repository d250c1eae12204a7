"""Run the quick cases under a sanitizer, on an NVIDIA GPU or in Triton's interpreter, and say what it finds."""

from __future__ import annotations

import argparse

from kernel_matrix.base.numbers import above_zero
from kernel_matrix.cli.options import (
    add_matrix_options,
    add_run_options,
    add_selection_options,
    load_project,
    selection_of,
)
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check
from kernel_matrix.run.progress import Console
from kernel_matrix.run.settings import Settings
from kernel_matrix.tools.sanitize import tools
from kernel_matrix.tools.sanitize.watch import folder_of, jobs_to_watch, watch
from kernel_matrix.vendors.machine import detect

_SHOWN, _CASES = 12, 10  # lines of a finding, and cases without an end


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which tools, which cases, and where they run."""
    parser.add_argument("--tool", action="append", choices=tuple(tools.TOOLS), help="only this tool (repeatable); "
                        "by default all tools of NVIDIA's compute-sanitizer")  # fmt: skip
    parser.add_argument(
        "--minutes", type=above_zero, help="of each tool and job, at most; what it has seen by then is kept"
    )
    add_matrix_options(parser)
    add_selection_options(parser)
    add_run_options(parser)


def main(options: argparse.Namespace) -> int:
    """Run each tool, print what it found, and write it. 1: something is not explained, or came to no end."""
    project, machine = load_project(options), detect()
    red = False
    for tool in options.tool or tools.OF_NVIDIA:
        if tool in tools.OF_NVIDIA:
            tools.program()
        jobs = jobs_to_watch(project, machine, selection_of(options), tool)
        settings = Settings(
            project.root, folder_of(project, tool), options.executor, max(1, options.jobs), options.resume
        )
        with Console(jobs) as console:
            check = watch(project, jobs, tool, machine, settings, console, options.minutes)
        print("\n".join(lines(check)))
        print(f"written: {checks.write(check, project.build)}")
        red = red or check.is_red
    return int(red)


def lines(check: Check) -> list[str]:
    """Return what a person reads of one tool's run: a line for each cell, and the findings, each kind once."""
    text = [f"{check.name} ({check.program}) on {check.machine}: {check.sees}", *filter(None, [check.note])]
    text += [cell.line("clean", "with a finding") for cell in check.cells]
    text += [f"  without an end: {line}" for line in check.unfinished[:_CASES]]
    firsts = {(one.kernel, one.text.splitlines()[0]): one for one in reversed(check.findings)}
    for finding in firsts.values():
        text += [finding.case, *(f"    {line}" for line in finding.text.splitlines()[:_SHOWN])]
        text += [f"    explained: {finding.explained}"] if finding.explained else []
    return text
