"""Write a report for a toolchain's maintainer on a failing probe, case or cell."""

from __future__ import annotations

import argparse
import platform as system
from pathlib import Path

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.cli.options import add_matrix_options, build_folder
from kernel_matrix.cli.probe import environments, select_probes
from kernel_matrix.config.load import load
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.lab.issue_report import Rerun, reduce_case, report_case, report_probe, since_when
from kernel_matrix.lab.probe import judge_all
from kernel_matrix.lab.probing import run_probes
from kernel_matrix.results.collect import collect
from kernel_matrix.run import executors
from kernel_matrix.run.executors import InstallError, Request, UnavailableError
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """On what, and where to."""
    add_matrix_options(parser)
    parser.add_argument("subject", help="a probe (tilelang/is_cpu), or a cell or case by its id")
    parser.add_argument("--toolchain", help="the toolchain in which the probe fails; the first one by default")
    parser.add_argument("--results", action="append", type=Path, help="where the case's result is (build/results)")
    parser.add_argument("--executor", choices=("venv", "current"), default="venv", help="where it is run again")
    parser.add_argument("--output", type=Path, help="the Markdown file (standard output)")


def main(options: argparse.Namespace) -> int:
    """Find the failure, reduce it, and write it down."""
    matrix = load(options.matrix)
    root, build = options.matrix.parent.resolve(), build_folder(options)
    text = (
        _probe(matrix, root, build, options) if options.subject.count("/") == 1 else _case(matrix, root, build, options)
    )
    if options.output:
        options.output.write_text(text, encoding="utf-8")
        print(f"written: {options.output}")
    else:
        print(text)
    return 0


def _probe(matrix: Matrix, root: Path, build: Path, options: argparse.Namespace) -> str:
    probes = select_probes(matrix, root, [options.subject])
    if options.toolchain and options.toolchain not in matrix.toolchains:
        raise UserError(
            f"--toolchain {options.toolchain}: there is none.{did_you_mean(options.toolchain, matrix.toolchains)}"
        )
    chosen = [options.toolchain] if options.toolchain else list(matrix.toolchains)
    for name, toolchain in environments(matrix, chosen).items():
        try:
            request = Request(root, build, matrix, Job("", toolchain, ()), None, lambda _: None)
            with executors.load(options.executor) as prepare:
                interpreter = prepare(request)
        except (InstallError, UnavailableError) as error:
            raise UserError(f"{name}: its environment cannot be had.\n{error}") from None
        records = run_probes(probes, name, interpreter, detect(), matrix.package.environment)
        for one in judge_all(probes, records, [name]):
            if one.record and one.record.outcome == "error":
                kept = sorted((root / matrix.package.sweeps).glob("*.json")) if matrix.package.sweeps else []
                return report_probe(one, since_when(options.subject, kept), f"{system.platform()}, no GPU used")
    raise UserError(f"{options.subject}: it fails in none of {', '.join(chosen)}, so there is nothing to report.")


def _case(matrix: Matrix, root: Path, build: Path, options: argparse.Namespace) -> str:
    records = {
        r.case: r for r in collect(options.results or [build / "results"]).records if r.outcome in ("fail", "error")
    }
    cases = [case for case in plan(matrix, "full").cases if options.subject in (case.id, case.cell.id)]
    if not cases:
        raise UserError(f"{options.subject}: neither a probe nor a cell or case of the full plan.")
    failing = next((case for case in cases if case.id in records), None)
    if failing is None:
        raise UserError(f"{options.subject}: no result says that it fails. Run it first, or name its --results.")
    rerun = Rerun(matrix, root, build, detect(), failing, options.executor)
    record, axes, tried, specification = reduce_case(rerun, records[failing.id])
    return report_case(failing, record, axes, tried, specification, matrix.package.suite)
