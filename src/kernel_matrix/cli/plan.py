"""Print the plan: the ids of its cases, or its rows for the engine that starts machines."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.cli.selection import add_matrix_options
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Event
from kernel_matrix.config.plan import plan
from kernel_matrix.machines import row_plan as spread
from kernel_matrix.machines import services as engines
from kernel_matrix.machines.selection import changed_files
from kernel_matrix.results import history


def arguments(parser: argparse.ArgumentParser) -> None:
    """For which event and engine."""
    add_matrix_options(parser)
    parser.add_argument("--event", help="an event of matrix.yaml's ci.events, which says tier and toolchains")
    parser.add_argument("--changed-since", metavar="REF", help="only what the changes since REF concern, and sentinels")
    parser.add_argument("--hosted-only", action="store_true", help="nothing on machines of one's own")
    parser.add_argument("--history", type=Path, help="results of an earlier run, for the time that cases take")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the rows with all cases, for run and report")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--rows", action="store_true", help="print the rows for people")
    for name in engines.NAMES:
        form.add_argument(f"--{name}", dest="engine", action="store_const", const=name, help=f"print them for {name}")


def main(options: argparse.Namespace) -> int:
    """Plan, spread, write and print."""
    matrix = load(options.matrix)
    events = matrix.ci.events
    if options.event and options.event not in events:
        raise UserError(
            f"--event {options.event}: matrix.yaml's ci.events has none.{did_you_mean(options.event, events)}"
        )
    tier = options.tier or events.get(options.event or "", Event()).tier
    planned = plan(matrix, tier)
    paths = None
    if options.changed_since:
        paths = changed_files(options.matrix.parent.resolve(), options.changed_since)
    earlier = history.read(options.history)
    made = spread.spread(
        matrix, planned, earlier.seconds, event=options.event or "", paths=paths, hosted_only=options.hosted_only
    )
    if options.write:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(spread.to_json(made), encoding="utf-8")
    if options.engine:
        print(engines.render(options.engine, matrix, made), end="")
    elif options.rows:
        for row in made.rows:
            cases = sum(len(job.cases) for job in row.jobs)
            why = "; ".join(dict.fromkeys(made.reasons[key] for job in row.jobs if (key := _job(made, job.id))))
            where = ", ".join(row.labels) or "no machine"
            print(f"{row.id}: {cases} cases, {row.seconds:.0f} s, on [{where}]{why and f' ({why})'}")
        print(f"{len(made.rows)} rows; {made.left_out} of {len(planned.cases)} cases are not asked for")
    else:
        print("\n".join(case.id for job in made.jobs for case in job.cases))
    return 0


def _job(made: spread.RowPlan, identity: str) -> str:
    """The key of a job's reason: reasons were given before the job was placed and cut."""
    return next((key for key in made.reasons if identity == key or identity.startswith(f"{key}.")), "")
