"""The command line. Each command is a module with ``arguments`` and ``main``, of this package or of a distribution.

A command turns its options into values, calls the pipeline, and prints what comes back. The first line of its module is
its help.
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import sys
from collections.abc import Sequence

from kernel_matrix import plugins
from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.cli.interruption import interrupt_on_signals

COMMANDS = (
    *("init", "run", "matrix", "take-junit", "report", "audit", "serve", "shell", "bundle"),
    *("plan", "jobs", "compare-cells", "diff", "repro", "query", "check", "lock", "labels", "schema"),
    *("expectations", "diagnose", "doctor"),
)


def commands() -> dict[str, str]:
    """Return the module of each command by its name: the core's, and those that distributions bring."""
    own = {name: f"{__name__}.{name.replace('-', '_')}" for name in COMMANDS}
    return {**own, **plugins.declared(plugins.COMMANDS)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status. 0: nothing is red; 1: a case is red; 2: the input cannot be used."""
    interrupt_on_signals()
    words = sys.argv[1:] if arguments is None else arguments
    if words and words[0] in plugins.EXTRAS and words[0] not in commands():
        print(f"kernel-matrix: {plugins.not_here(words[0])}", file=sys.stderr)
        return UserError.exit_code
    options = _parse(words)
    try:
        return int(options.command(options))
    except UserError as error:
        print(f"kernel-matrix: {_spelled(options, str(error))}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("kernel-matrix: interrupted; --resume goes on where this stopped", file=sys.stderr)
        return 130


def _spelled(options: argparse.Namespace, text: str) -> str:
    """Return a message with its commands as they are started in the repository of matrix.yaml, if that was read."""
    from kernel_matrix.cli.started import start_here  # the model takes long to import, and help needs none
    from kernel_matrix.config.commands import spelled
    from kernel_matrix.config.model import Start

    start = getattr(options, "start", None)
    return spelled(start_here() if start in (None, Start()) else start, text)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options. The words after ``--`` are for a command that takes words (``shell``, ``launches``)."""
    parser = _parser(arguments[:1])
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, unknown = parser.parse_known_args(arguments[:end])
    if unknown:
        of_command = getattr(
            options, "parser", parser
        )  # there is none where an unknown option stands before the command
        of_command.error(_unknown(of_command, unknown))
    if words := list(arguments[end + 1 :]):
        if "words" not in options:
            text = f"nothing can be done with '{' '.join(words)}': only shell and launches take a command after --"
            parser.error(text)
        options.words = words
    return options


def _unknown(parser: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    """Return the message for words that a command does not know, with what the first was perhaps meant to be."""
    text = f"unknown: {shlex.join(unknown)}."
    option = unknown[0].split("=")[0]
    known = re.findall(r"--[a-z][a-z-]*", parser.format_usage())
    return f"{text}{did_you_mean(option, known)}" if option.startswith("--") else text


def _parser(first: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser with the options of the command that is asked for, and only the names of all others.

    Importing all commands would take longer than most of them take.
    """
    parser = argparse.ArgumentParser(prog="kernel-matrix", description="A multi-vendor test matrix for GPU kernels.")
    known = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, path in commands().items():
        text = _first_line(path)
        sub = known.add_parser(name, help=text, description=text)
        if name in first:
            module = importlib.import_module(path)
            sub.set_defaults(command=module.main, parser=sub)
            module.arguments(sub)
    return parser


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command, for its documentation."""
    path = commands()[name]
    parser = argparse.ArgumentParser(prog=f"kernel-matrix {name}", description=_first_line(path))
    importlib.import_module(path).arguments(parser)
    return parser


def _first_line(module: str) -> str:
    """Return the first line of the text that a command's module begins with."""
    with plugins.source_of(module).open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')
