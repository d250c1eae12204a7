"""Write a report for a toolchain's maintainer on a failing probe, case or cell."""

from __future__ import annotations

import argparse
from pathlib import Path

from kernel_matrix.base.files import write_atomically
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.tools.toolchains.issue_report import report_failing_case, report_failing_probe
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: on what, and where to."""
    add_matrix_options(parser)
    parser.add_argument("subject", help="a probe (FAMILY/NAME), or a cell or case by its id")
    parser.add_argument("--toolchain", help="the toolchain in which the probe fails; the first one by default")
    parser.add_argument("--results", action="append", type=Path, help="where the case's result is (build/results)")
    parser.add_argument("--executor", choices=("venv", "current"), default="venv", help="where it is run again")
    parser.add_argument("--output", type=Path, help="the Markdown file (standard output)")


def main(options: argparse.Namespace) -> int:
    """Find the failure, reduce it, and print or write the report."""
    project = load_project(options)
    if options.subject.count("/") == 1:
        text = report_failing_probe(project, options.subject, options.toolchain, detect(), options.executor)
    else:
        text = report_failing_case(project, options.subject, options.results or (), detect(), options.executor)
    if options.output:
        write_atomically(options.output, text)
        print(f"written: {options.output}")
    else:
        print(text)
    return 0
