"""Print how often each case is red and not red on one commit, by machine, from a history of tables."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from kernel_matrix.ci.passed import checks_of, rates
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.report import checks
from kernel_matrix.report.reruns import FLAKY


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the argument: the folder of the history."""
    add_matrix_options(parser)
    parser.add_argument("history", type=Path, help="the folder with the tables of many runs")


def main(options: argparse.Namespace) -> int:
    """Print the rates, and write them for the page's view Checks."""
    project, found = load_project(options), rates(options.history)
    for rate in found:
        if rate.mixed:
            print(f"{rate.case} on {rate.machine}: {rate.text}")
    print(f"{sum(rate.mixed > 0 for rate in found)} of {len(found)} cases that were tried several times on one commit")
    for file in (project.build / checks.FOLDER).glob(f"{FLAKY}*.json"):
        file.unlink()
    for number, check in enumerate(checks_of(found, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")):
        print(f"written: {checks.write(check, project.build, f'{FLAKY}-{number}' if number else FLAKY)}")
    return 0
