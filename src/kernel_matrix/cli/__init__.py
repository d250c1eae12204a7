"""The command line. A command is a module of this package: its first line is its help, ``main`` is what it does."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from kernel_matrix.errors import UserError

COMMANDS = ("run", "matrix", "report", "plan", "check", "schema",
            "probe", "diagnose", "sweep", "bisect", "report-issue", "doctor")  # fmt: skip


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
    parser = argparse.ArgumentParser(prog="kernel-matrix", description="A multi-vendor test matrix for GPU kernels.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in COMMANDS:
        module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
        text = (module.__doc__ or "").splitlines()[0]
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=module.main)
        module.arguments(sub)
    return parser
