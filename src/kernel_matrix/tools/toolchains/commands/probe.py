"""Run the probes: what each toolchain can and cannot, as expected of its version or not."""

from __future__ import annotations

import argparse
import os
import sys

from kernel_matrix.base.numbers import whole
from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.probes.probe import select_probes
from kernel_matrix.probes.probe_toolchains import probe_toolchains
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which probes, and in which toolchains."""
    add_matrix_options(parser)
    parser.add_argument("--toolchain", action="append", help="only this toolchain (repeatable)")
    parser.add_argument("--probe", action="append", help="only this probe, FAMILY/NAME (repeatable)")
    parser.add_argument("--executor", choices=("venv", "current"), default="venv", help="where the probes run")
    parser.add_argument("--jobs", type=whole(1), default=os.cpu_count() or 1, help="how many probes at a time")


def main(options: argparse.Namespace) -> int:
    """Run the probes; return 1 if one has changed or an environment cannot be made."""
    project = load_project(options)
    probes = select_probes(project.matrix, project.root, options.probe or ())
    changed = False
    for probed in probe_toolchains(
        project, probes, options.toolchain or (), detect(), options.executor, max(1, options.jobs)
    ):
        print("\n".join(probed.lines), file=sys.stderr if probed.broken else sys.stdout)
        changed |= probed.changed
    return int(changed)
