"""Functions that look at this machine, for several vendors."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 30.0  # a program without an answer by then hangs


@dataclass(frozen=True)
class Answer:
    """The output of a program, and its fault; ``fault`` is empty if it worked."""

    output: str
    fault: str = ""

    @property
    def first_line(self) -> str:
        """Return the first line of the output."""
        return self.line_with("")

    def line_with(self, word: str) -> str:
        """Return the first line of the output that has the word; empty if none has it."""
        return next((line.strip() for line in self.output.splitlines() if word in line), "")


def ask(command: Sequence[str]) -> Answer:
    """Run a program and return its answer, also where it hangs, fails or does not start."""
    try:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return Answer("", str(error.strerror or error))
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        _end(process)
        return Answer("", f"no answer within {SECONDS:g} s")
    if process.returncode:
        reason = last_line(errors) or last_line(output)
        return Answer(output, f"exit status {process.returncode}{f': {reason}' if reason else ''}")
    return Answer(output)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a program that hangs, and what it started. One that hangs in a driver may not end, and is left alone."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)


def last_line(text: str) -> str:
    """Return the last line that is not blank."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""


def is_on_pci_bus(vendor: str, devices: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Return whether the PCI bus has a display or 3D controller, or a processing accelerator, of that vendor's id."""
    kinds = texts_in(devices.glob("*"), "class", "vendor")
    return any(owner == vendor and kind[:4] in ("0x03", "0x12") for kind, owner in kinds)


def texts_in(folders: Iterable[Path], *names: str) -> Iterator[list[str]]:
    """Yield the texts of the files of these names in each folder, such as a device's in /sys, if all can be read."""
    for folder in folders:
        with contextlib.suppress(OSError):
            yield [(folder / name).read_text().strip() for name in names]
