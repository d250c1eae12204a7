"""What every command is asked with: the configuration, and which part of its plan."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from kernel_matrix.errors import UserError, did_you_mean
from kernel_matrix.load import load
from kernel_matrix.matrix import Matrix
from kernel_matrix.plan import Job, Plan, plan


def add_matrix_options(parser: argparse.ArgumentParser) -> None:
    """The options of a command that reads matrix.yaml."""
    parser.add_argument("--matrix", type=Path, default=Path("matrix.yaml"), help="the configuration")
    parser.add_argument("--build", type=Path, default=None, help="where everything is written (build beside it)")
    parser.add_argument("--tier", choices=("quick", "full"), default="quick")


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """The options that take a part of the plan."""
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument("--case", action="append", help="only this case or cell, by its id (repeatable)")


def load_plan(options: argparse.Namespace) -> tuple[Matrix, Plan]:
    """The configuration that the options name, and the plan of their tier."""
    matrix = load(options.matrix)
    return matrix, plan(matrix, options.tier)


def build_folder(options: argparse.Namespace) -> Path:
    """Where everything is written."""
    return Path(options.build or options.matrix.parent / "build").resolve()


def select(matrix: Matrix, planned: Plan, options: argparse.Namespace) -> list[Job]:
    """The jobs that the options ask for, with only the cases that they ask for.

    Raises:
        UserError: an option names something that is not in the plan.
    """
    for option, known in (("platform", matrix.platforms), ("toolchain", matrix.toolchains)):
        for name in getattr(options, option) or ():
            if name not in known:
                raise UserError(f"--{option} {name}: there is no such {option}.{did_you_mean(name, known)}")
    wanted = options.case or ()
    for identity in wanted:
        if not any(_is(case.id, case.cell.id, identity) for case in planned.cases):
            ids = {name for case in planned.cases for name in (case.id, case.cell.id)}
            hint = " The full tier has more: --tier full." if planned.tier == "quick" else ""
            raise UserError(f"--case {identity}: the plan has no such case.{did_you_mean(identity, ids)[:300]}{hint}")
    jobs = []
    for job in planned.jobs:
        cases = tuple(
            case for case in job.cases if not wanted or any(_is(case.id, case.cell.id, identity) for identity in wanted)
        )
        kept = (not options.platform or job.platform in options.platform) and (
            not options.toolchain or job.toolchain in options.toolchain
        )
        if kept and cases:
            jobs.append(replace(job, cases=cases))
    if not jobs:
        raise UserError("no job is left: the options exclude each other. Ask for less at once.")
    return jobs


def _is(case: str, cell: str, identity: str) -> bool:
    return identity in (case, cell)
