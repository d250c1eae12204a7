"""A program that watches the kernel's process, such as a sanitizer: it starts the process, and writes what it finds.

``KERNEL_MATRIX_WATCHER`` names it for a job: ``{"command": [...], "finding": "..."}``, JSON. The command stands before
the command of the kernel's process, and ``{log}`` in it is the file of the findings. A line that ``finding`` matches
begins one.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.job import own_files

VARIABLE = "KERNEL_MATRIX_WATCHER"
_LINES = 400  # of what is found in one call


@dataclass
class Watcher:
    """The command of the program, its file, and how much of the file is read."""

    command: tuple[str, ...]
    finding: re.Pattern[str]
    log: Path
    read: int = 0

    def start(self) -> tuple[str, ...]:
        """Return the command for a new process, whose findings begin a new file."""
        own_files.remove(self.log)
        self.read = 0
        return self.command

    def found(self) -> str:
        """Return what the program wrote since the last call, from the first finding on; nothing if there is none."""
        content = own_files.content_of(self.log)
        new, self.read = content[self.read :].decode("utf-8", errors="replace"), len(content)
        first = self.finding.search(new)
        return "\n".join(new[first.start() :].splitlines()[:_LINES]) if first else ""


def watcher_of_job(folder: Path) -> Watcher | None:
    """Return the program that the job names; its file is in ``folder``."""
    if not (named := os.environ.get(VARIABLE)):
        return None
    said, log = json.loads(named), folder / "findings.txt"
    command = tuple(word.replace("{log}", str(log)) for word in said["command"])
    return Watcher(command, re.compile(said["finding"], re.MULTILINE), log)
