"""What every command is asked with: the configuration, and which part of its plan."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job, Plan, plan
from kernel_matrix.machines import row_plan as spread
from kernel_matrix.machines.rows import cut, estimate
from kernel_matrix.machines.selection import changed_files, choose
from kernel_matrix.results import history


def add_matrix_options(parser: argparse.ArgumentParser) -> None:
    """The options of a command that reads matrix.yaml."""
    parser.add_argument("--matrix", type=Path, default=Path("matrix.yaml"), help="the configuration")
    parser.add_argument("--build", type=Path, default=None, help="where everything is written (build beside it)")
    parser.add_argument("--tier", choices=("quick", "full"), default=None, help="quick (the default) or all cases")


def add_selection_options(parser: argparse.ArgumentParser) -> None:
    """The options that take a part of the plan."""
    parser.add_argument("--platform", action="append", help="only this platform (repeatable)")
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument("--case", action="append", help="only this case, of any tier, or cell, by its id (repeatable)")
    parser.add_argument("--changed-since", metavar="REF", help="only what the changes since REF concern, and sentinels")
    parser.add_argument("--shard", metavar="K/N", help="the K-th of N parts that take about as long")
    parser.add_argument("--history", type=Path, help="results of an earlier run, for the time that cases take")
    parser.add_argument("--plan", type=Path, help="a plan's file, whose row --row names")
    parser.add_argument("--row", help="only this row of the plan's file")


def load_plan(options: argparse.Namespace) -> tuple[Matrix, Plan]:
    """The configuration that the options name, and the plan of their tier.

    Where they name none it is quick, or full if it takes that to find the cases that they name.
    """
    matrix = load(options.matrix)
    file = getattr(options, "plan", None)
    if tier := options.tier or (spread.tier_of(file) if file else None):
        return matrix, plan(matrix, tier)
    quick = plan(matrix, "quick")
    return matrix, quick if set(getattr(options, "case", None) or ()) <= _ids(quick) else plan(matrix, "full")


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
    wanted, ids = options.case or (), _ids(planned)
    for identity in wanted:
        if identity not in ids:
            hint = " The full tier has more: --tier full." if planned.tier == "quick" else ""
            raise UserError(f"--case {identity}: the plan has no such case.{did_you_mean(identity, ids)[:300]}{hint}")
    jobs = []
    for job in _spread_jobs(planned, options) or planned.jobs:
        cases = tuple(case for case in job.cases if not wanted or case.id in wanted or case.cell.id in wanted)
        kept = (not options.platform or job.platform in options.platform) and (
            not options.toolchain or job.toolchain in options.toolchain
        )
        if kept and cases:
            jobs.append(replace(job, cases=cases))
    if options.changed_since:
        paths = changed_files(options.matrix.parent.resolve(), options.changed_since)
        jobs = list(choose(matrix, jobs, paths).jobs)
    if options.shard:
        jobs = _shard(matrix, planned, jobs, options)
    if not jobs:
        raise UserError("no job is left: the options exclude each other. Ask for less at once.")
    return jobs


def _spread_jobs(planned: Plan, options: argparse.Namespace) -> tuple[Job, ...]:
    """The jobs of the row that the options name; none if they name none."""
    if (options.plan is None) != (options.row is None):
        raise UserError("--plan FILE and --row ID belong together: the file holds the plan, the row is a part of it.")
    if options.plan is None:
        return ()
    return spread.row(spread.from_json(options.plan, planned), options.row).jobs


def _shard(matrix: Matrix, planned: Plan, jobs: list[Job], options: argparse.Namespace) -> list[Job]:
    found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", options.shard)
    if not found or int(found[1]) > int(found[2]):
        raise UserError(f"--shard {options.shard}: write K/N with K from 1 to N, such as 2/5.")
    number, count = int(found[1]), int(found[2])
    seconds = estimate(matrix, planned.cases, history.read(options.history).seconds)
    parts = (cut(job, seconds, count)[number - 1 if count > 1 else 0] for job in jobs)
    return [part for part in parts if part.cases]


def _ids(planned: Plan) -> set[str]:
    """Everything that ``--case`` can name."""
    return {name for case in planned.cases for name in (case.id, case.cell.id)}
