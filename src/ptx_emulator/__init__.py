"""Run PTX on a CPU: load a kernel, launch it, and get what it wrote and what it did wrong.

>>> program = Program(ptx)                                               # doctest: +SKIP
>>> ran = program.launch((8,), 256, [Memory.of("x", x), Memory.of("y", y), struct.pack("<i", n)])  # doctest: +SKIP
>>> ran.findings                                                         # doctest: +SKIP
()
"""

from __future__ import annotations

from gfx_emulator.errors import EmulatorError, NoCompilerError, UnknownInstructionError
from gfx_emulator.findings import Finding
from gfx_emulator.memory import Memory, Ran
from ptx_emulator.launch import TARGETS, Program

__all__ = [
    "TARGETS",
    "EmulatorError",
    "Finding",
    "Memory",
    "NoCompilerError",
    "Program",
    "Ran",
    "UnknownInstructionError",
]
