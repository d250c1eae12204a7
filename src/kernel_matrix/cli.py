"""The command line: each command is a stage of the flow, or two of them in a row."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernel_matrix import executors
from kernel_matrix.collect import collect
from kernel_matrix.compare import RED, Comparison, compare
from kernel_matrix.errors import UserError, did_you_mean
from kernel_matrix.load import load, schema
from kernel_matrix.machine import Machine, detect
from kernel_matrix.matrix import Matrix
from kernel_matrix.plan import Job, Plan, plan
from kernel_matrix.progress import Console
from kernel_matrix.report import report
from kernel_matrix.report.document import headline, repeat_command
from kernel_matrix.run import Settings, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0: nothing red; 1: a case is red; 2: the user's input cannot be used."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except UserError as error:
        print(f"kernel-matrix: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("kernel-matrix: interrupted; --resume goes on where this stopped", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kernel-matrix", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=function)
        sub.add_argument("--matrix", type=Path, default=Path("matrix.yaml"), help="the configuration")
        sub.add_argument("--build", type=Path, default=None, help="where everything is written (build beside it)")
        sub.add_argument("--tier", choices=("quick", "full"), default="quick")
        return sub

    for name, function, text in (
        ("run", _run, "run what this machine can of the plan, and say what it cannot"),
        ("matrix", _matrix, "run everything, then report"),
    ):
        sub = command(name, function, text)
        sub.add_argument("--platform", action="append", help="only this platform (repeatable)")
        sub.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
        sub.add_argument("--case", action="append", help="only this case or cell, by its id (repeatable)")
        sub.add_argument("--executor", choices=executors.NAMES, default="venv", help="where the jobs run")
        sub.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many jobs at a time")
        sub.add_argument("--resume", action="store_true", help="keep what an interrupted run has finished")
    sub = command("report", _report, "make the dashboard from results")
    sub.add_argument("results", nargs="*", type=Path, help="folders or files of JUnit XML (build/results)")
    sub = command("plan", _plan, "print the ids of all planned cases")
    sub = command("check", _check, "validate matrix.yaml")
    sub = command("schema", _schema, "print matrix.yaml's JSON Schema")
    return parser


def _load(options: argparse.Namespace) -> tuple[Matrix, Plan]:
    matrix = load(options.matrix)
    return matrix, plan(matrix, options.tier)


def _build(options: argparse.Namespace) -> Path:
    return Path(options.build or options.matrix.parent / "build").resolve()


def _check(options: argparse.Namespace) -> int:
    _, planned = _load(options)
    print(f"{options.matrix}: {len(planned.cases)} cases in {len(planned.jobs)} jobs")
    return 0


def _plan(options: argparse.Namespace) -> int:
    for case in _load(options)[1].cases:
        print(case.id)
    return 0


def _schema(_: argparse.Namespace) -> int:
    print(schema(), end="")
    return 0


def _run(options: argparse.Namespace) -> int:
    matrix, planned = _load(options)
    jobs = select(matrix, planned, options)
    machine = detect()
    with Console(jobs) as console:
        _describe(console, matrix, jobs, machine, options)
        settings = Settings(
            options.matrix.parent.resolve(), _build(options), options.executor, max(1, options.jobs), options.resume
        )
        files = run(matrix, jobs, machine, settings, console)
    mine = replace(planned, jobs=tuple(jobs))
    return _verdict(compare(mine, collect(files).records))


def _matrix(options: argparse.Namespace) -> int:
    _run(options)
    options.results = []
    return _report(options)


def _report(options: argparse.Namespace) -> int:
    matrix, planned = _load(options)
    build = _build(options)
    collected = collect(options.results or [build / "results"])
    comparison = compare(planned, collected.records)
    document = report(matrix, comparison, collected, build / "site")
    print(headline(document))
    print(f"dashboard: {build / 'site' / 'index.html'}")
    for problem in collected.broken:
        print(f"kernel-matrix: {problem}", file=sys.stderr)
    return 2 if collected.broken else int(comparison.is_red)


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


def _describe(
    console: Console, matrix: Matrix, jobs: Sequence[Job], machine: Machine, options: argparse.Namespace
) -> None:
    console.say(f"executor: {options.executor}. This machine: {'; '.join(d.name for d in machine.devices)}")
    for name in dict.fromkeys(job.platform for job in jobs):
        platform = matrix.platforms[name]
        here = [t for t in platform.targets if machine.device_for(platform.device, t)]
        if not here:
            console.say(f"{name}: no {platform.title} device here. Nothing of it will run; what can be is compiled.")
        elif len(here) < len(platform.targets):
            rest = ", ".join(t for t in platform.targets if t not in here)
            console.say(f"{name}: {', '.join(here)} is here and runs; {rest} can only be compiled.")


def _verdict(comparison: Comparison) -> int:
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
            print(f"  repeat it: {repeat_command(cell.cell.platform, verdict.case.id)}")
        if len(red) > 3:
            print(f"  and {len(red) - 3} more of {cell.cell.id}")
    return int(comparison.is_red)
