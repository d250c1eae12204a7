"""Run AMD's machine code on a CPU: load a code object, launch a kernel, and get what it wrote and what it did wrong.

>>> program = Program(hsaco, "gfx942")                                   # doctest: +SKIP
>>> ran = program.launch((8,), 256, [Memory.of("x", x), Memory.of("y", y), struct.pack("<i", n)])  # doctest: +SKIP
>>> ran.findings                                                         # doctest: +SKIP
()
"""

from __future__ import annotations

from gfx_emulator.decoding import TARGETS
from gfx_emulator.errors import EmulatorError, NoCompilerError, UnknownInstructionError
from gfx_emulator.findings import Finding
from gfx_emulator.launch import Program
from gfx_emulator.memory import Memory, Ran

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
