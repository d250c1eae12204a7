"""The errors of the emulator."""

from __future__ import annotations

from collections.abc import Sequence

from gpu_emulators.common.findings import Finding


class EmulatorError(Exception):
    """The emulator cannot do what it was asked for. The text says why."""


class UnknownInstructionError(EmulatorError):
    """A kernel has an instruction, or a form of one, that the emulator does not know. The text names it."""


class NoCompilerError(EmulatorError):
    """There is no C++ compiler to build the emulator with."""


class FoundError(EmulatorError):
    """A kernel did something that is a fault. The text says what; :attr:`findings` has all."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        """Keep the findings."""
        super().__init__("; ".join(str(one) for one in findings))
        self.findings = tuple(findings)
