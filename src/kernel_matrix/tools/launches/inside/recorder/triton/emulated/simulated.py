"""Run a compiled kernel in a simulator of another project: a small program launches it there, by a driver's API."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpu_emulators.common.errors import EmulatorError
from gpu_emulators.common.memory import Memory, Ran

from ..card.job import HOST, Job

_MOST_FINDINGS = 8


class Program:
    """One kernel that a simulator runs.

    ``simulator`` is what the harness knows of it, with the words that start it. ``api`` is the driver that launches the
    kernel, cuda or hip.
    """

    def __init__(self, simulator: Mapping[str, Any], target: str, api: str, image: bytes, name: str) -> None:
        self._simulator, self._start = simulator, simulator["start"][target]
        self._image = image
        self._job = {"api": api, "kernel": name}

    def launch(self, grid: Sequence[int], threads: int, arguments: Sequence[Memory | bytes], *, shared: int = 0) -> Ran:
        """Run the kernel on copies of the memory, write them back, and return what was found.

        Raises:
            EmulatorError: the simulator did not run it.
        """
        job = Job({**self._job, "threads": threads, "shared": shared}, grid, arguments)
        with tempfile.TemporaryDirectory(prefix="simulated-") as name:
            folder = Path(name)
            run = {"name": "after", "image": "image", "content": "memory"}
            job.write(folder, {"image": self._image}, {"memory": job.contents()}, [run])
            findings = self._run(folder)
            if not findings:
                job.take(job.results(folder, "after"))
        return Ran(0, findings)

    def _run(self, folder: Path) -> Any:
        command = [*self._start, sys.executable, "-I", "-S", str(HOST), str(folder)]
        run = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            preexec_fn=without_limit,
        )
        found = [_line(one[0]) for one in re.finditer(self._simulator["finding"], run.stdout)]
        if found:
            return tuple(dict.fromkeys(found))[:_MOST_FINDINGS]
        refusal = re.search(self._simulator["refusal"], run.stdout)
        if run.returncode or refusal or not (folder / "done").exists():
            said = refusal[0] if refusal else run.stdout.strip().rpartition("\n")[2]
            said = _line(said).removeprefix("kernel-matrix: ") or f"it ended with status {run.returncode}"
            raise EmulatorError(f"{self._simulator['name']} {self._simulator['version']}: {said}")
        return ()


def _line(text: str) -> str:
    return " ".join(text.split())


def without_limit() -> None:
    """Give a process all addresses: a simulator or a driver sets aside as many as a GPU has memory."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
