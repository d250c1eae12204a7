"""The command line. Each command is a module that has ``arguments`` and ``main``; its first line is its help.

A command turns its options into values, calls the pipeline, and prints what comes back. A name of two words is a
command of a group, such as ``ci plan``: the help shows the group alone.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_matrix.base.commands import here
from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.base.installation import lacking, own_version
from kernel_matrix.base.printing import watched
from kernel_matrix.cli.interruption import interrupt_on_signals

# The commands by what a user wants, each with its module.
PURPOSES = {
    "Run": {
        "init": "adopt.commands.init",
        "matrix": "ci.commands.matrix",
        "run": "cli.run",
        "shell": "cli.shell",
        "send": "send.command_send",
    },
    "Look": {
        "report": "cli.report",
        "serve": "serve.command",
        "doctor": "cli.doctor",
        "take": "send.command_take",
        "pack": "cli.pack",
    },
    "Ask": {
        "query": "cli.query",
        "diff": "cli.diff",
        "compare": "cli.compare",
        "repro": "cli.repro",
        "verify": "tools.verify.command",
        "diagnose": "cli.diagnose",
        "audit": "cli.audit",
    },
    "Keep the rules": {"check": "cli.check", "lock": "adopt.commands.lock"},
    "CI": {
        "ci again": "ci.commands.again",
        "ci bundle": "ci.commands.bundle",
        "ci comment": "adopt.commands.comment",
        "ci flaky": "ci.commands.flaky",
        "ci history": "ci.commands.history",
        "ci image": "ci.commands.image",
        "ci jobs": "ci.commands.jobs",
        "ci labels": "ci.commands.labels",
        "ci notify": "adopt.commands.notify",
        "ci plan": "ci.commands.plan",
        "ci take-junit": "adopt.commands.take_junit",
    },
    "Toolchains": {
        "bench": "tools.bench.command",
        "calibrate": "tools.calibrate.command",
        "fuzz": "tools.fuzz.command",
        "launches": "tools.launches.command",
        "sanitize": "tools.sanitize.command",
        "toolchains bisect": "tools.toolchains.commands.bisect",
        "toolchains probe": "tools.toolchains.commands.probe",
        "toolchains report": "tools.toolchains.commands.report_issue",
        "toolchains sweep": "tools.toolchains.commands.sweep",
        "watch": "tools.watch.command",
        "wheel": "tools.wheel.command",
    },
}
GROUPS = {
    "ci": "Take a step of a CI workflow",
    "toolchains": "Ask what each toolchain can and cannot, version by version",
}
_PIPE_ENDED = 128 + 13  # as of a program that the signal ends
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)  # it is full, or may not be written
_PLACE = (errno.EISDIR, errno.ENOTDIR, errno.EEXIST)  # a folder stands where a file is to be, or a file for a folder


def commands() -> dict[str, str]:
    """Return the module of each command by its name."""
    return {name: f"kernel_matrix.{path}" for modules in PURPOSES.values() for name, path in modules.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status. 0: nothing is red; 1: a case is red; 2: the input cannot be used."""
    try:
        with watched():
            try:
                return _run(arguments)
            finally:
                sys.stdout.flush()
    except BrokenPipeError:  # who reads the output has ended, as `head` does
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # Python flushes both when it ends
            os.dup2(nowhere, stream.fileno())
        return _PIPE_ENDED


def _run(arguments: Sequence[str] | None) -> int:
    interrupt_on_signals()
    words, options = list(sys.argv[1:] if arguments is None else arguments), argparse.Namespace()
    try:
        options = _parse(words)
        return int(options.command(options))
    except UserError as error:
        print(f"kernel-matrix: {here(str(error))}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        if not (text := lacking(error)):
            raise
        print(f"kernel-matrix: {text}", file=sys.stderr)
        return UserError.exit_code
    except OSError as error:
        if error.errno not in _DISK + _PLACE:
            raise
        named = error.filename2 or error.filename  # a file that is written whole becomes the second
        place = f"{named}: " if named else ""
        remedy = " Write elsewhere: --build FOLDER." if "build" in options and error.errno in _DISK else ""
        print(f"kernel-matrix: {place}{error.strerror}.{remedy}", file=sys.stderr)
        return UserError.exit_code
    except KeyboardInterrupt:
        goes_on = "; --resume goes on where this stopped" if "resume" in options else ""
        page = (
            ", and `kernel-matrix report` makes the page of what has ended" if {*words[:1]} & {"run", "matrix"} else ""
        )
        print(here(f"kernel-matrix: interrupted{goes_on}{page}"), file=sys.stderr)
        return 130


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the options. The words after ``--`` are for a command that takes words (``shell``, ``launches``)."""
    parser = _parser(arguments[:2])
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


class _Parser(argparse.ArgumentParser):
    """A parser that says which command a word was perhaps meant to be."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check that a word is one of the choices.

        Raises:
            ArgumentError: it is none.
        """
        if action.choices is not None and value not in action.choices:
            meant = did_you_mean(str(value), map(str, action.choices))
            raise argparse.ArgumentError(action, f"there is no {value!r}.{meant}")


class _Version(argparse.Action):
    """Print which version this is, and end."""

    def __init__(self, option_strings: Sequence[str], dest: str, help: str = "") -> None:  # noqa: A002
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=help)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it. Finding the commit takes a moment, so nothing looks for it before."""
        print(own_version())
        parser.exit()


def _parser(first: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser with the options of the command that the first words name, and only the names of all others.

    Importing all commands would take longer than most of them take.
    """
    modules = commands()
    parser = _Parser(
        prog="kernel-matrix",
        usage="kernel-matrix [-h] COMMAND ...",
        description="A multi-vendor test matrix for GPU kernels.",
        epilog="\n".join(_overview(modules)),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version, and the commit where that is known")
    known = parser.add_subparsers(prog="kernel-matrix", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for name in _names(modules):
        if name in GROUPS:
            sub = known.add_parser(name, description=f"{GROUPS[name]}.")
            if name in first[:1]:
                inner = sub.add_subparsers(required=True, metavar="COMMAND")
                for path in in_group(name, modules):
                    text = _first_line(modules[path])
                    one = inner.add_parser(path.partition(" ")[2], help=text, description=text)
                    if path == " ".join(first):
                        _fill(one, modules[path])
        else:
            sub = known.add_parser(name, description=_first_line(modules[name]))
            if name in first[:1]:
                _fill(sub, modules[name])
    return parser


def _fill(parser: argparse.ArgumentParser, path: str) -> None:
    """Give the parser the options of the command in a module."""
    module = importlib.import_module(path)
    parser.set_defaults(command=module.main, parser=parser)
    module.arguments(parser)


def _names(modules: Iterable[str]) -> list[str]:
    """Return what can be the first word: the commands and the groups."""
    return list(dict.fromkeys(name.partition(" ")[0] for name in modules))


def in_group(name: str, modules: Iterable[str]) -> list[str]:
    """Return the commands of a group; of a command, itself."""
    return [path for path in modules if path == name or path.startswith(f"{name} ")]


def by_purpose() -> dict[str, list[str]]:
    """Return the first words of the commands by what a user wants."""
    return {purpose: _names(modules) for purpose, modules in PURPOSES.items()}


def _overview(modules: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of the help: the commands by what a user wants, each with its first line."""
    for purpose, names in by_purpose().items():
        yield f"{purpose}:"
        for name in names:
            yield from _entry(name, _line(name, modules))
    yield "\nkernel-matrix COMMAND --help shows the options of a command."


def _line(name: str, modules: Mapping[str, str]) -> str:
    """Return the help of a command; of a group, also its commands."""
    if name not in GROUPS:
        return _first_line(modules[name])
    return f"{GROUPS[name]}: {', '.join(path.partition(' ')[2] for path in in_group(name, modules))}."


def _entry(name: str, text: str) -> Iterator[str]:
    """Yield the lines of an entry, whose text stands in a column of its own."""
    width = max(40, min(shutil.get_terminal_size().columns, 120) - 2)
    yield from textwrap.wrap(text, width, initial_indent=f"  {name:12}", subsequent_indent=" " * 14)


def parser_of(name: str) -> argparse.ArgumentParser:
    """Return the parser of one command, for its documentation."""
    path = commands()[name]
    parser = argparse.ArgumentParser(prog=f"kernel-matrix {name}", description=_first_line(path))
    importlib.import_module(path).arguments(parser)
    return parser


def _first_line(module: str) -> str:
    """Return the first line of the text that a command's module begins with."""
    path = Path(__file__).parents[2].joinpath(*module.split(".")).with_suffix(".py")
    with path.open(encoding="utf-8") as file:
        return file.readline().strip().strip('"')
