"""Run the quick cases on an NVIDIA GPU under compute-sanitizer, and say what it finds. The matrix keeps its results."""

from __future__ import annotations

import argparse
import json

from kernel_matrix.base.files import write_atomically
from kernel_matrix.cli.options import (
    add_matrix_options,
    add_run_options,
    add_selection_options,
    load_project,
    selection_of,
)
from kernel_matrix.run.progress import Console
from kernel_matrix.run.settings import Settings
from kernel_matrix.vendors.machine import detect
from kernel_matrix_sanitize import tools
from kernel_matrix_sanitize.watch import Watched, build_folder, jobs_to_watch, watch

_SHOWN, _CASES = 12, 3  # lines of a finding, and cases without an end of a cell


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which tools, which cases, and where they run."""
    parser.add_argument("--tool", action="append", choices=tuple(tools.TOOLS), help="only this tool (repeatable)")
    add_matrix_options(parser)
    add_selection_options(parser)
    add_run_options(parser)


def main(options: argparse.Namespace) -> int:
    """Run each tool, print what it found, and write it. 1: something is not explained, or came to no end."""
    tools.program()
    project, machine = load_project(options), detect()
    jobs = jobs_to_watch(project, machine, selection_of(options))
    red = False
    for tool in options.tool or tools.TOOLS:
        folder = build_folder(project, tool)
        settings = Settings(project.root, folder, options.executor, max(1, options.jobs), options.resume)
        with Console(jobs) as console:
            watched = watch(project, jobs, tool, machine, settings, console)
        print("\n".join(lines(watched)))
        write_atomically(folder / "findings.json", json.dumps(watched.as_data(), indent=1) + "\n")
        print(f"written: {folder / 'findings.json'}")
        red = red or watched.is_red
    return int(red)


def lines(watched: Watched) -> list[str]:
    """Return what a person reads of one tool's run: a line for each cell, and the findings."""
    text = [f"{watched.tool} {watched.version} on {watched.facts['device']}: {tools.TOOLS[watched.tool].sees}"]
    for cell in watched.cells:
        found = {finding.case for finding in cell.findings}
        open_ones = {finding.case for finding in cell.findings if not finding.explained}
        counts = {"with a finding": len(open_ones), "with findings that are explained": len(found - open_ones)}
        counts["without an end"] = len(cell.unfinished)
        more = [f"{count} {word}" for word, count in counts.items() if count]
        text.append(f"  {cell.cell}: {', '.join([f'{cell.watched} cases, nothing found', *more])}")
        text += [f"    {line}" for line in cell.unfinished[:_CASES]]
    firsts = {(finding.kernel, finding.text.splitlines()[0]): finding for finding in reversed(watched.findings)}
    for finding in firsts.values():
        text += [finding.case, *(f"    {line}" for line in finding.text.splitlines()[:_SHOWN])]
        text += [f"    explained: {finding.explained}"] if finding.explained else []
    return text
