"""Run everything, probe the toolchains, then report."""

from __future__ import annotations

import argparse
from types import ModuleType

from kernel_matrix.cli import probe, report, run
from kernel_matrix.cli.selection import load_plan, select

arguments = run.arguments


def main(options: argparse.Namespace) -> int:
    """What is red is in the report, so its verdict counts."""
    run.main(options)
    matrix, planned = load_plan(options)
    if matrix.package.probes is not None:
        probing = _with_defaults(probe, options)
        probing.toolchain = sorted({job.toolchain for job in select(matrix, planned, options)})
        probing.executor = "current" if options.executor == "current" else "venv"
        probe.main(probing)
    return report.main(_with_defaults(report, options))


def _with_defaults(command: ModuleType, options: argparse.Namespace) -> argparse.Namespace:
    """The options as another command takes them: what it alone has is as nobody had said anything."""
    parser = argparse.ArgumentParser()
    command.arguments(parser)
    return argparse.Namespace(**{**vars(parser.parse_args([])), **vars(options)})
