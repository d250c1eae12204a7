"""Write what ``host.py`` is given for the launches of one kernel: its code, its arguments, and copies of its memory."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpu_emulators.common.memory import Memory

HOST = Path(__file__).resolve().with_name("host.py")
_ALIGNED = 16  # bytes: Triton asks for no more of a pointer


@dataclass(frozen=True)
class Job:
    """The launches of one kernel with these arguments. ``settings`` are what they have in common.

    ``storages`` are ranges of memory that are taken as a whole, though an argument may be a part of one only.
    """

    settings: Mapping[str, Any]
    grid: Sequence[int]
    arguments: Sequence[Memory | bytes]
    storages: Sequence[tuple[int, int]] = ()
    ranges: Sequence[tuple[int, int]] = field(init=False)

    def __post_init__(self) -> None:
        """Find the ranges of memory, each once: arguments may be parts of one tensor."""
        memories = [(one.address, one.size) for one in self.arguments if isinstance(one, Memory)]
        object.__setattr__(self, "ranges", _merged([*memories, *self.storages]))

    def contents(self) -> list[bytes]:
        """Return what each range holds."""
        return [ctypes.string_at(start, size) for start, size in self.ranges]

    def write(
        self,
        folder: Path,
        images: Mapping[str, bytes],
        contents: Mapping[str, Sequence[bytes]],
        runs: Sequence[Mapping[str, Any]],
    ) -> None:
        """Write the job, with its images and the contents that memory may begin with."""
        for name, image in images.items():
            (folder / name).write_bytes(image)
        for name, content in contents.items():
            for number, one in enumerate(content):
                (folder / f"{name}.{number}").write_bytes(one)
        job = {
            **self.settings,
            "memory": [{"size": size, "pad": start % _ALIGNED} for start, size in self.ranges],
            "arguments": [_as_json(one, self.ranges) for one in self.arguments],
            "runs": [{"grid": list(self.grid), **run} for run in runs],
        }
        (folder / "job.json").write_text(json.dumps(job))

    def results(self, folder: Path, run: str) -> list[bytes]:
        """Return what each range holds after a run."""
        return [(folder / f"{run}.{number}").read_bytes() for number in range(len(self.ranges))]

    def take(self, results: Sequence[bytes]) -> None:
        """Let this process's memory be as a run has left it."""
        for (start, size), content in zip(self.ranges, results, strict=True):
            ctypes.memmove(start, content, size)


def _merged(memories: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for address, length in sorted(memories):
        if ranges and address < sum(ranges[-1]):
            start, size = ranges.pop()
            ranges.append((start, max(start + size, address + length) - start))
        elif length:
            ranges.append((address, length))
    return ranges


def _as_json(value: Memory | bytes, ranges: Sequence[tuple[int, int]]) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    for number, (start, size) in enumerate(ranges):
        if start <= value.address < start + size:
            return {"memory": number, "offset": value.address - start}
    return {"bytes": bytes(8).hex()}  # a tensor without elements
