"""Open a shell, or run a command, in a platform's container as a job sees it."""

from __future__ import annotations

import argparse
import sys

from kernel_matrix.cli.options import add_matrix_options, load_project
from kernel_matrix.run.in_container import container_for, request_for, run_in
from kernel_matrix.vendors.machine import detect


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: which container, and what to run in it."""
    add_matrix_options(parser)
    parser.add_argument("platform", help="the platform")
    parser.add_argument("--toolchain", help="whose environment comes first on PATH (the platform's first toolchain)")
    parser.set_defaults(words=[])
    parser.epilog = "After -- stands a command to run instead of a shell."


def main(options: argparse.Namespace) -> int:
    """Return the exit status of the shell or command."""
    project = load_project(options)
    request = request_for(
        project.matrix, project.root, project.build, detect(), options.platform, options.toolchain, _say
    )
    with container_for(request) as interpreter:
        request.say(f"{interpreter.reference} as a job of {request.job.toolchain} sees it")
        return run_in(request, interpreter, options.words or ["bash"])


def _say(text: str) -> None:
    print(text, file=sys.stderr)
