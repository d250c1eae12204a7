"""Look at this machine, and say what each platform needs to be known one level better."""

from __future__ import annotations

import argparse

from rich.console import Console

from kernel_matrix.cli.selection import add_matrix_options, build_folder
from kernel_matrix.doctor import examine, prospects
from kernel_matrix.load import load
from kernel_matrix.machine import detect

arguments = add_matrix_options

_MARKS = {"good": "[green]✓[/]", "absent": "[yellow]-[/]", "broken": "[red]✗[/]"}


def main(options: argparse.Namespace) -> int:
    """Print what was found; 1 if something is broken, so that a script can ask."""
    matrix, machine = load(options.matrix), detect()
    findings = examine(build_folder(options), machine)
    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        console.print(f"{_MARKS[finding.health]} {finding.what}: ", end="")
        console.print(finding.said, markup=False)
        if finding.remedy and finding.health != "good":
            console.print(f"    {finding.remedy}", markup=False)
    console.print()
    for prospect in prospects(matrix, findings, machine):
        console.print(f"{prospect.platform}: up to '{prospect.reaches}' here.", markup=False)
        if prospect.lacking:
            console.print(f"    lacking: {prospect.lacking}", markup=False)
        console.print(f"    {prospect.command}", markup=False)
    return int(any(finding.health == "broken" for finding in findings))
