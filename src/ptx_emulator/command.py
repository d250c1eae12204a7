"""The command line: what a text of PTX has, whether the emulator knows all of it, and a launch with arrays of files."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from gfx_emulator.command import BAD, USAGE, add_launch, launched
from gfx_emulator.errors import EmulatorError, UnknownInstructionError
from ptx_emulator.launch import Program
from ptx_emulator.parse import read


def main(words: Sequence[str] | None = None) -> int:
    """Do what the words say. Exit status: 0 good, 1 a kernel has a fault or an unknown instruction, 2 no such input."""
    parser = argparse.ArgumentParser(prog="ptx-emulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("show", "list the kernels and their opcodes"), ("run", "launch a kernel and print findings")):
        command = commands.add_parser(name, help=text)
        command.add_argument("file", type=Path, help="the text of PTX")
        command.add_argument("--kernel", help="its name, where there are several")
    add_launch(command, "threads of a block")
    given = parser.parse_args(words)
    try:
        text = given.file.read_text(encoding="utf-8")
        return _show(text, given.kernel) if given.command == "show" else _run(text, given)
    except (EmulatorError, OSError, ValueError) as error:
        print(f"ptx-emulator: {error}", file=sys.stderr)
        return USAGE


def _run(text: str, given: argparse.Namespace) -> int:
    return launched(Program(text, given.kernel), given, "warps")


def _show(text: str, kernel: str | None) -> int:
    lacking = 0
    for name, one in read(text).kernels.items():
        if kernel in (None, name):
            opcodes = Counter(instruction.opcode for instruction in one.instructions)
            print(f"{name}: {len(one.instructions)} instructions, {len(opcodes)} opcodes, {one.threads} threads,")
            try:
                Program(text, name)
                print("  all of it is known")
            except UnknownInstructionError as error:
                print(f"  not known: {error}")
                lacking += 1
    return BAD if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
