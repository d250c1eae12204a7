"""Run everything here or on a cluster, probe the toolchains, then report."""

from __future__ import annotations

import argparse

from kernel_matrix.ci import cluster_options
from kernel_matrix.cli import matrix


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: what to run, and where."""
    matrix.arguments(parser)
    cluster_options.add(parser)


def main(options: argparse.Namespace) -> int:
    """Run here, or submit to a cluster and follow its jobs."""
    if not (options.on or options.detach or options.attach or options.cancel):
        return matrix.main(options)
    from kernel_matrix.ci import cluster  # it takes long to import

    return cluster.main(options, lambda text: print(text, flush=True))
