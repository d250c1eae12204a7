"""Look at this machine, and say what each platform needs to be known one level better."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable

from kernel_matrix.base.commands import here
from kernel_matrix.base.console import ColouredConsole
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.doctor.findings import PLATFORM, examine
from kernel_matrix.doctor.reachable import Prospect, prospects
from kernel_matrix.vendors.finding import Finding
from kernel_matrix.vendors.machine import detect

_MARKS = {"good": "[green]✓[/]", "absent": "[yellow]-[/]", "broken": "[red]✗[/]"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: from where to look."""
    add_matrix_options(parser)
    parser.add_argument("--inside", metavar="PLATFORM", help="look from inside the platform's image, as a job sees it")


def main(options: argparse.Namespace) -> int:
    """Print the findings and prospects. Return 1 if something is broken, so that a script can ask."""
    project = load_project(options)
    if options.inside:
        from kernel_matrix.doctor.inside import run_inside  # the library of the engine is an extra

        return run_inside(project, options.matrix.name, options.inside, lambda text: print(text, file=sys.stderr))
    machine = detect()
    findings = examine(project.matrix, project.root, project.build, machine)
    reachable = prospects(project.matrix, findings, machine, os.environ.get(PLATFORM, ""))
    _print(findings, reachable)
    return int(any(finding.status == "broken" for finding in findings))


def _print(findings: Iterable[Finding], reachable: Iterable[Prospect]) -> None:
    console = ColouredConsole()
    for finding in findings:
        console.print(f"{_MARKS[finding.status]} {finding.what}: ", end="")
        console.print(finding.text, markup=False)
        if finding.remedy and finding.status != "good":
            console.print(f"    {here(finding.remedy)}", markup=False)
    console.print()
    for prospect in reachable:
        console.print(f"{prospect.platform}: up to '{prospect.reaches}' here.", markup=False)
        if prospect.lacking:
            console.print(f"    lacking: {prospect.lacking}", markup=False)
        console.print(f"    {here(prospect.command)}", markup=False)
