"""NVIDIA's PTX: what a text has, whether the emulator knows all of it, and a launch."""

from __future__ import annotations

import argparse
from collections import Counter

from gpu_emulators.common.command import BAD, GOOD, add_commands, launched
from gpu_emulators.common.errors import UnknownInstructionError
from gpu_emulators.nvidia.launch import Program
from gpu_emulators.nvidia.parse import read


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the commands and their options."""
    add_commands(parser, "the text of PTX", "threads of a block")


def run(given: argparse.Namespace) -> int:
    """Launch a kernel, and return the exit status."""
    return launched(Program(given.file.read_text(encoding="utf-8"), given.kernel), given, "warps")


def show(given: argparse.Namespace) -> int:
    """Print what the kernels have, and return the exit status."""
    text, lacking = given.file.read_text(encoding="utf-8"), 0
    for name, one in read(text).kernels.items():
        if given.kernel in (None, name):
            opcodes = Counter(instruction.opcode for instruction in one.instructions)
            print(f"{name}: {len(one.instructions)} instructions, {len(opcodes)} opcodes, {one.threads} threads,")
            try:
                Program(text, name)
                print("  all of it is known")
            except UnknownInstructionError as error:
                print(f"  not known: {error}")
                lacking += 1
    return BAD if lacking else GOOD
