"""Run PTX on a CPU: load a kernel, launch it, and get what it wrote and what it did wrong.

>>> program = Program(ptx)                                               # doctest: +SKIP
>>> ran = program.launch((8,), 256, [Memory.of("x", x), Memory.of("y", y), struct.pack("<i", n)])  # doctest: +SKIP
>>> ran.findings                                                         # doctest: +SKIP
()
"""

from __future__ import annotations

from gpu_emulators.common.errors import EmulatorError, NoCompilerError, UnknownInstructionError
from gpu_emulators.common.findings import Finding
from gpu_emulators.common.memory import Memory, Ran
from gpu_emulators.nvidia.launch import TARGETS, Program

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
