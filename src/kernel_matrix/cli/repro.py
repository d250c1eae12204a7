"""Print the one command that repeats a cell, or say what hardware it needs."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.cli.selection import add_matrix_options, build_folder
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.results import repeat as repro
from kernel_matrix.results.collect import collect
from kernel_matrix.results.compare import judge
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Which cell, of which results."""
    add_matrix_options(parser)
    parser.add_argument("cell", help="a cell or a case, by its id")
    parser.add_argument("results", nargs="*", type=Path, help="folders or files of JUnit XML (build/results)")


def main(options: argparse.Namespace) -> int:
    """The facts as comments, then the command. 1: this machine lacks the hardware."""
    matrix = load(options.matrix)
    planned = plan(matrix, options.tier or "full")
    cases = [case for case in planned.cases if options.cell in (case.id, case.cell.id)]
    if not cases:
        ids = {name for case in planned.cases for name in (case.id, case.cell.id)}
        raise UserError(f"{options.cell}: the plan has no such cell or case.{did_you_mean(options.cell, ids)[:300]}")
    records = collect(options.results or [build_folder(options) / "results"]).records
    wanted = {case.id for case in cases}
    mine = [record for record in records if record.case in wanted]
    if not mine:
        raise UserError(
            f"{options.cell}: no result of it is here. Name the folder of the run that is to be repeated, such as an "
            "unpacked artifact."
        )
    by_case = {record.case for record in mine}
    verdicts = [judge(case, [r for r in mine if r.case == case.id]) for case in cases if case.id in by_case]
    record = repro.deciding(verdicts).record or mine[0]
    for line in repro.facts(matrix, options.cell, record):
        print(f"# {line}")
    lacking = repro.needs(matrix, options.cell, record, detect())
    if lacking:
        print(f"# {lacking}")
    print(repro.command(matrix, options.cell, record))
    return 1 if lacking else 0
