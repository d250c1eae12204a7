"""Run a compiled kernel in a simulator of another project: a small program launches it there, by a driver's API."""

from __future__ import annotations

import ctypes
import json
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

_HOST = Path(__file__).resolve().with_name("host.py")
_ALIGNED = 16  # bytes: Triton asks for no more of a pointer
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
        ranges = _merged([one for one in arguments if isinstance(one, Memory)])
        with tempfile.TemporaryDirectory(prefix="simulated-") as name:
            folder = Path(name)
            (folder / "image").write_bytes(self._image)
            for number, (start, size) in enumerate(ranges):
                (folder / f"memory{number}").write_bytes(ctypes.string_at(start, size))
            job = {
                **self._job,
                "grid": list(grid),
                "threads": threads,
                "shared": shared,
                "memory": [{"size": size, "pad": start % _ALIGNED} for start, size in ranges],
                "arguments": [_as_json(one, ranges) for one in arguments],
            }
            (folder / "job.json").write_text(json.dumps(job))
            findings = self._run(folder)
            if not findings:
                for number, (start, size) in enumerate(ranges):
                    ctypes.memmove(start, (folder / f"memory{number}").read_bytes(), size)
        return Ran(0, findings)

    def _run(self, folder: Path) -> Any:
        command = [*self._start, sys.executable, "-I", "-S", str(_HOST), str(folder)]
        run = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            preexec_fn=_without_limit,
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


def _without_limit() -> None:
    """Give a simulator all addresses: it sets aside as many as a GPU has memory."""
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _merged(memories: Sequence[Memory]) -> list[tuple[int, int]]:
    """Return the ranges of memory, each once: arguments may be parts of one tensor."""
    ranges: list[tuple[int, int]] = []
    for one in sorted(memories, key=lambda one: one.address):
        if ranges and one.address < sum(ranges[-1]):
            start, size = ranges.pop()
            ranges.append((start, max(start + size, one.address + one.size) - start))
        elif one.size:
            ranges.append((one.address, one.size))
    return ranges


def _as_json(value: Memory | bytes, ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    for number, (start, size) in enumerate(ranges):
        if start <= value.address < start + size:
            return {"memory": number, "offset": value.address - start}
    return {"bytes": bytes(8).hex()}  # a tensor without elements
