"""Run everything, probe the toolchains, then report."""

from __future__ import annotations

import argparse

from kernel_matrix.cli import probe, report, run
from kernel_matrix.load import load

arguments = run.arguments


def main(options: argparse.Namespace) -> int:
    """What is red is in the report, so its verdict counts."""
    run.main(options)
    if load(options.matrix).package.probes is not None:
        options.probe = None
        probe.main(options)
    options.results = []
    return report.main(options)
