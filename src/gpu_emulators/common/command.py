"""The parts of both command lines: the options of a launch, and a launch with arrays of files."""

from __future__ import annotations

import argparse
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np

from gpu_emulators.common.errors import EmulatorError
from gpu_emulators.common.memory import Memory

GOOD, BAD = 0, 1
_NUMBERS = {"i32": "i", "u32": "I", "i64": "q", "u64": "Q", "f32": "f", "f64": "d"}


def add_commands(parser: argparse.ArgumentParser, file: str, threads: str) -> list[argparse.ArgumentParser]:
    """Add ``show`` and ``run``, whose options tell the file and the threads of a launch, and return them."""
    commands = parser.add_subparsers(dest="command", required=True)
    texts = {"show": "list the kernels and their opcodes", "run": "launch a kernel and print findings"}
    show, run = (commands.add_parser(name, help=text) for name, text in texts.items())
    for command in (show, run):
        command.add_argument("file", type=Path, help=file)
        command.add_argument("--kernel", help="its name, where there are several")
    run.add_argument("--grid", required=True, help="how many, such as 8 or 8x4")
    run.add_argument("--threads", required=True, help=f"{threads}, such as 256 or 16x16")
    run.add_argument("--shared", type=int, default=0, help="bytes of shared memory that the launch asks for")
    run.add_argument(
        "--arguments", nargs="*", default=[], help="x.npy for memory, which is written back; i32:7, f32:0.5; null"
    )
    return [show, run]


def launched(program: Any, given: argparse.Namespace, groups: str) -> int:
    """Launch a program on arrays of files, write these back, and print what was found."""
    arrays = {word: np.load(word) for word in given.arguments if word.endswith(".npy")}
    arguments = [Memory.of(word, arrays[word]) if word in arrays else _value(word) for word in given.arguments]
    grid, threads = ([int(size) for size in sizes.split("x")] for sizes in (given.grid, given.threads))
    ran = program.launch(grid, threads, arguments, shared=given.shared)
    for word, array in arrays.items():
        np.save(word, array)
    print(f"{ran.executed} instructions of {groups}; {len(ran.findings)} findings")
    for finding in ran.findings:
        print(finding)
    return BAD if ran.findings else GOOD


def _value(word: str) -> bytes:
    """Return the bytes of an argument that is no memory."""
    if word == "null":
        return bytes(8)
    match = re.fullmatch(rf"({'|'.join(_NUMBERS)}):(.+)", word)
    if match is None:
        raise EmulatorError(f"the argument {word!r} is no file .npy, no number such as i32:7, and not null")
    number = float(match[2]) if match[1].startswith("f") else int(match[2], 0)
    return struct.pack(f"<{_NUMBERS[match[1]]}", number)
