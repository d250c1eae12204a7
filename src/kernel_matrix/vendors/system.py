"""Questions to this machine that several vendors ask."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 30.0  # a program that has no answer by then hangs


@dataclass(frozen=True)
class Answer:
    """What a program printed, and what went wrong with it; ``fault`` is empty if nothing did."""

    output: str
    fault: str = ""

    @property
    def first_line(self) -> str:
        """Return the first line of the output."""
        return self.line_with("")

    def line_with(self, word: str) -> str:
        """Return the first line of the output that has the word; empty if none has it."""
        return next((line.strip() for line in self.output.splitlines() if word in line), "")


def ask(command: Sequence[str], seconds: float = SECONDS) -> Answer:
    """Run a program and return its answer, also where it hangs, fails or does not start."""
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return Answer("", f"no answer within {seconds:g} s")
    except OSError as error:
        return Answer("", str(error.strerror or error))
    if done.returncode:
        words = last_line(done.stderr) or last_line(done.stdout)
        return Answer(done.stdout, f"exit status {done.returncode}{f': {words}' if words else ''}")
    return Answer(done.stdout)


def last_line(text: str) -> str:
    """Return the last line that is not blank."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def is_on_pci_bus(vendor: str, devices: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Return whether the PCI bus has a display or 3D controller, or a processing accelerator, of that vendor's id."""
    for device in devices.glob("*"):
        try:
            kind = (device / "class").read_text().strip()
            if (device / "vendor").read_text().strip() == vendor and kind[:4] in ("0x03", "0x12"):
                return True
        except OSError:
            continue
    return False
