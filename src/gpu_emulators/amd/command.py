"""AMD's machine code: what a code object has, whether the emulator knows all of it, and a launch."""

from __future__ import annotations

import argparse
from collections import Counter

from gpu_emulators.amd.code_object import read
from gpu_emulators.amd.decoding import TARGETS, family_of, whole
from gpu_emulators.amd.launch import Program
from gpu_emulators.amd.library import handler_names
from gpu_emulators.amd.translate import unknown
from gpu_emulators.common.command import BAD, GOOD, add_commands, launched


def add_to(parser: argparse.ArgumentParser) -> None:
    """Add the commands and their options."""
    for command in add_commands(parser, "the code object (HSACO)", "threads of a workgroup"):
        command.add_argument("--target", required=True, choices=TARGETS)


def run(given: argparse.Namespace) -> int:
    """Launch a kernel, and return the exit status."""
    family_of(given.target)
    return launched(Program(given.file.read_bytes(), given.target, given.kernel), given, "waves")


def show(given: argparse.Namespace) -> int:
    """Print what the kernels have, and return the exit status."""
    lacking, code = 0, read(given.file.read_bytes())
    for name, kernel in code.kernels.items():
        if given.kernel in (None, name):
            instructions, starts = whole(code, kernel, given.target)
            opcodes = Counter(one.name for one in instructions)
            missing = unknown(instructions, given.target, starts, handler_names())
            print(f"{name}: {len(instructions)} instructions, {len(opcodes)} opcodes, waves of {kernel.wave} lanes,")
            print(
                f"  {kernel.lds} bytes of LDS, {kernel.scratch} of private memory, {kernel.argument_bytes} of arguments"
            )
            print(f"  not known: {', '.join(missing) or 'nothing'}")
            lacking += len(missing)
    return BAD if lacking else GOOD
