"""Try every published version of a package: what resolves, installs, imports, passes its probes, and runs."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from kernel_matrix.base.errors import UserError
from kernel_matrix.cli.options import load_project
from kernel_matrix.vendors.machine import detect
from kernel_matrix_probes.attempts import Attempt, keep
from kernel_matrix_probes.commands import add_subject_options
from kernel_matrix_probes.subject import make_subject
from kernel_matrix_probes.sweep import as_sweep, sweep
from kernel_matrix_probes.sweep_table import stops, table
from kernel_matrix_probes.versions import chosen, published


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which package, which versions, beside what, and what to ask of each."""
    add_subject_options(parser)
    parser.add_argument("--versions", required=True, help="0.1.8.., 0.1.8..0.1.15 or 0.1.8,0.1.12")
    parser.add_argument("--with", action="append", dest="pairs", metavar="NAME=V1,V2", default=[],
                        help="try each version with each of these, too (repeatable)")  # fmt: skip
    parser.add_argument(
        "--output", type=Path, help="the JSON result (build/sweeps/PACKAGE.json); one that is there is added to"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many versions at a time")


def main(options: argparse.Namespace) -> int:
    """Sweep, show the table, and write the result."""
    project = load_project(options)
    subject = make_subject(
        project, options.package, detect(), probes=options.probe or (), case=options.case, discard=options.discard
    )
    output = options.output or project.build / "sweeps" / f"{options.package}.json"
    pairs = _pairs(options.pairs)

    def keep_attempt(attempt: Attempt) -> None:
        """Write each attempt as it ends: a sweep that is stopped loses the versions in flight only."""
        keep(output, as_sweep(subject, [attempt]))

    versions = chosen(options.versions, published(options.package))
    attempts = sweep(subject, versions, pairs, max(1, options.jobs), keep_attempt)
    Console(soft_wrap=True).print(table(subject, attempts))
    for line in stops(attempts, project.rules):
        print(line)
    print(f"written: {output}")
    return 0


def _pairs(texts: Sequence[str]) -> dict[str, Sequence[str]]:
    pairs: dict[str, Sequence[str]] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not values:
            raise UserError(f"--with {text}: write it as NAME=VERSION,VERSION.")
        pairs[name] = values.split(",")
    return pairs
