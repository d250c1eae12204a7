"""Run everything, then report."""

from __future__ import annotations

import argparse

from kernel_matrix.cli import report, run

arguments = run.arguments


def main(options: argparse.Namespace) -> int:
    """What is red is in the report, so its verdict counts."""
    run.main(options)
    whole = argparse.ArgumentParser()
    report.arguments(whole)
    return report.main(argparse.Namespace(**{**vars(whole.parse_args([])), **vars(options)}))
