"""The command line: what a code object has, whether the emulator knows all of it, and a launch with arrays of files."""

from __future__ import annotations

import argparse
import re
import struct
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gfx_emulator.code_object import read
from gfx_emulator.decoding import TARGETS, decode, family_of
from gfx_emulator.errors import EmulatorError
from gfx_emulator.launch import Program
from gfx_emulator.library import handler_names
from gfx_emulator.memory import Memory
from gfx_emulator.translate import unknown

_NUMBERS = {"i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f32": "f", "f64": "d"}
BAD, USAGE = 1, 2


def main(words: Sequence[str] | None = None) -> int:
    """Do what the words say. Exit status: 0 good, 1 a kernel has a fault or an unknown instruction, 2 no such input."""
    parser = argparse.ArgumentParser(prog="gfx-emulator", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("show", "list the kernels and their opcodes"), ("run", "launch a kernel and print findings")):
        command = commands.add_parser(name, help=text)
        command.add_argument("file", type=Path, help="the code object (HSACO)")
        command.add_argument("--target", required=True, choices=TARGETS)
        command.add_argument("--kernel", help="its name, where there are several")
    add_launch(command, "threads of a workgroup")
    given = parser.parse_args(words)
    try:
        return _show(given) if given.command == "show" else _run(given)
    except (EmulatorError, OSError, ValueError) as error:
        print(f"gfx-emulator: {error}", file=sys.stderr)
        return USAGE


def add_launch(command: argparse.ArgumentParser, threads: str) -> None:
    """Add the options of a launch."""
    command.add_argument("--grid", required=True, help="how many, such as 8 or 8x4")
    command.add_argument("--threads", required=True, type=int, help=threads)
    command.add_argument("--shared", type=int, default=0, help="bytes of shared memory that the launch asks for")
    command.add_argument(
        "--arguments", nargs="*", default=[], help="x.npy for memory, which is written back; i32:7, f32:0.5; null"
    )


def _show(given: argparse.Namespace) -> int:
    lacking = 0
    for name, kernel in read(given.file.read_bytes()).kernels.items():
        if given.kernel in (None, name):
            instructions = decode(kernel.text, given.target)
            opcodes = Counter(one.name for one in instructions)
            missing = unknown(instructions, given.target, handler_names())
            print(f"{name}: {len(instructions)} instructions, {len(opcodes)} opcodes, waves of {kernel.wave} lanes,")
            print(
                f"  {kernel.lds} bytes of LDS, {kernel.scratch} of private memory, {kernel.argument_bytes} of arguments"
            )
            print(f"  not known: {', '.join(missing) or 'nothing'}")
            lacking += len(missing)
    return BAD if lacking else 0


def _run(given: argparse.Namespace) -> int:
    family_of(given.target)
    return launched(Program(given.file.read_bytes(), given.target, given.kernel), given, "waves")


def launched(program: Any, given: argparse.Namespace, groups: str) -> int:
    """Launch a program on arrays of files, write these back, and print what was found."""
    arrays = {word: np.load(word) for word in given.arguments if word.endswith(".npy")}
    arguments = [Memory.of(word, arrays[word]) if word in arrays else _value(word) for word in given.arguments]
    grid = [int(size) for size in given.grid.split("x")]
    ran = program.launch(grid, given.threads, arguments, shared=given.shared)
    for word, array in arrays.items():
        np.save(word, array)
    print(f"{ran.executed} instructions of {groups}; {len(ran.findings)} findings")
    for finding in ran.findings:
        print(finding)
    return BAD if ran.findings else 0


def _value(word: str) -> bytes:
    """Return the bytes of an argument that is no memory."""
    if word == "null":
        return bytes(8)
    match = re.fullmatch(rf"({'|'.join(_NUMBERS)}):(.+)", word)
    if match is None:
        raise EmulatorError(f"the argument {word!r} is no file .npy, no number such as i32:7, and not null")
    number = float(match[2]) if match[1].startswith("f") else int(match[2], 0)
    return struct.pack(f"<{_NUMBERS[match[1]]}", number)


if __name__ == "__main__":
    sys.exit(main())
