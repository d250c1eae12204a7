"""Run what this machine can of the plan, and say what it cannot."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace

from kernel_matrix.cli.selection import add_matrix_options, add_selection_options, build_folder, load_plan, select
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job
from kernel_matrix.diagnosis import diagnose, in_words
from kernel_matrix.machines import row_plan as spread
from kernel_matrix.report.document import repeat_command
from kernel_matrix.results import repeat as repro
from kernel_matrix.results.collect import collect
from kernel_matrix.results.compare import RED, Comparison, compare
from kernel_matrix.run import executors
from kernel_matrix.run.progress import Console
from kernel_matrix.run.schedule import Settings, run
from kernel_matrix.vendors.machine import Machine, detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to run, and where."""
    add_matrix_options(parser)
    add_selection_options(parser)
    parser.add_argument(
        "--executor",
        choices=(executors.AUTO, *executors.NAMES),
        default=executors.AUTO,
        help="where the jobs run (auto: in containers where an engine answers)",
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many jobs at a time")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run has finished")
    parser.add_argument("--excluded", action="store_true", help="try the excluded cases too")
    parser.add_argument("--expect", action="append", metavar="FACT=VALUE", help="refuse results with another value")


def main(options: argparse.Namespace) -> int:
    """Run, and say what is red."""
    matrix, planned = load_plan(options)
    jobs = select(matrix, planned, options)
    machine = detect()
    with Console(jobs) as console:
        _describe(console, matrix, jobs, machine, options)
        root, build = options.matrix.parent.resolve(), build_folder(options)
        excluded = options.excluded or bool(options.plan and spread.from_json(options.plan, planned).excluded)
        settings = Settings(root, build, options.executor, max(1, options.jobs), options.resume, excluded)
        files = run(matrix, jobs, machine, settings, console)
    mine = replace(planned, jobs=tuple(jobs))
    records = collect(files).records
    repro.check(records, options.expect or ())
    return _verdict(matrix, compare(mine, records))


def _describe(
    console: Console, matrix: Matrix, jobs: Sequence[Job], machine: Machine, options: argparse.Namespace
) -> None:
    console.say(f"this machine: {'; '.join(d.name for d in machine.devices)}")
    for name in dict.fromkeys(job.platform for job in jobs):
        platform = matrix.platforms[name]
        executor, why = executors.choose(options.executor, platform)
        console.say(f"{name}: executor {executor} ({why})")
        here = [t for t in platform.targets if machine.device_for(platform.device, t)]
        if not here:
            console.say(f"{name}: no {platform.title} device here. Nothing of it will run; what can be is compiled.")
        elif len(here) < len(platform.targets):
            rest = ", ".join(t for t in platform.targets if t not in here)
            console.say(f"{name}: {', '.join(here)} is here and runs; {rest} can only be compiled.")


def _verdict(matrix: Matrix, comparison: Comparison) -> int:
    counts = ", ".join(f"{count} {state}" for state, count in comparison.counts.items())
    print(f"{len(comparison.plan.cases)} cases: {counts}")
    ran = sum(v.evidence == "ran" for cell in comparison.cells for v in cell.cases)
    if not ran:
        print("Nothing ran on hardware of the platforms that were asked for.")
    for cell in comparison.cells:
        red = [verdict for verdict in cell.cases if verdict.state in RED]
        for verdict in red[:3]:
            stage = f" in {verdict.record.stage}" if verdict.record and verdict.record.stage else ""
            print(f"{verdict.state}{stage}: {verdict.case.id}\n  {verdict.reason.splitlines()[0][:300]}")
            if verdict.state == "error" and (record := verdict.record):
                found = diagnose(f"{record.message}\n{record.detail}", record.stage, record.job)
                print(f"  {in_words(found)}")
            print(f"  repeat it: {repeat_command(cell.cell.platform, verdict.case.id)}")
        if len(red) > 3:
            print(f"  and {len(red) - 3} more of {cell.cell.id}")
        if red and (text := repro.command(matrix, cell.cell.id, red[0].record)):
            print(f"  the cell, exactly as here: {text}")
    return int(comparison.is_red)
