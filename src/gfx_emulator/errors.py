"""The errors of the emulator."""

from __future__ import annotations


class EmulatorError(Exception):
    """The emulator cannot do what it was asked for. The text says why."""


class UnknownInstructionError(EmulatorError):
    """A kernel has an instruction, or a form of one, that the emulator does not know. The text names it."""


class NoCompilerError(EmulatorError):
    """There is no C++ compiler to build the emulator with."""
