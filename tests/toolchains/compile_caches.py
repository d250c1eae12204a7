"""Run a few cases of a toolchain with each kind of compile cache, and compare the results with the first, bit for bit.

The ordinary harness runs the cases. All compilers have their caches in one folder.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import disks
from common import Silent
from judges import compare

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Job, plan
from kernel_matrix.job.watcher import VARIABLE
from kernel_matrix.run import schedule
from kernel_matrix.run.settings import Settings
from kernel_matrix.store.load import collect
from kernel_matrix.vendors.machine import detect

_PLACE = "{cache}"  # in a value of package.environment: the folder of all caches


@dataclass(frozen=True)
class End:
    """The end of a case: its state, all words about it, and the digests of its outputs or of its code."""

    state: str
    words: str
    bits: Mapping[str, str]

    def difference(self, other: End) -> str:
        """Return what is different in another end; empty if nothing is."""
        if other.state != self.state or not other.bits:
            return other.words
        names = [name for name, digest in self.bits.items() if other.bits.get(name) != digest]
        return f"other bits of {', '.join(names)}" if names or other.bits.keys() != self.bits.keys() else ""


@dataclass(frozen=True)
class Lane:
    """A few cases of a toolchain on a platform, and the same of another version of it, if there is one."""

    root: Path
    matrix: Matrix
    job: Job
    other: Job | None
    folder: Path
    share: Callable[[Path], object]  # gives a build folder what runs share
    executor: str = "venv"

    @property
    def cache(self) -> Path:
        """The folder of the caches, the same in all runs: some compilers write its path into their files."""
        return self.folder / "compiled"

    @property
    def kept(self) -> Path:
        """A copy of what the first run left in an empty cache."""
        return self.folder / "kept"

    def run(self, before: Sequence[str] = (), job: Job | None = None, name: str = "alone") -> dict[str, End]:
        """Run the cases; the words ``before`` stand before the command of the kernel's process."""
        job, build = job or self.job, self.folder / name
        self.share(build)
        variables = {
            key: value.replace(_PLACE, str(self.cache)) for key, value in self.matrix.package.environment.items()
        }
        if before:
            variables[VARIABLE] = json.dumps({"command": list(before), "finding": "(?!)"})
        matrix = self.matrix.model_copy(update={
            "limits": self.matrix.limits.model_copy(update={"attempts": 1}),
            "package": self.matrix.package.model_copy(update={"environment": variables}),
        })  # fmt: skip
        files = schedule.run(matrix, [job], detect(), Settings(self.root, build, self.executor), Silent())
        records = {record.case: record for record in collect(files).records}
        planned = replace(plan(matrix, "quick"), jobs=(job,))
        found = compare(planned, records.values()).verdicts
        return {verdict.case.id: _end(verdict, records.get(verdict.case.id)) for verdict in found}

    def run_together(self) -> list[dict[str, End]]:
        """Run the cases in two jobs, whose kernels' processes begin at the same time."""
        meeting = self.folder / "meeting"
        shutil.rmtree(meeting, ignore_errors=True)
        meeting.mkdir()
        names = ("one", "two")
        with ThreadPoolExecutor(len(names)) as pool:
            return list(pool.map(lambda name: self.run(disks.meeting(meeting), name=name), names))


def _end(verdict, record) -> End:
    bits = {name: sample.sha256 for name, sample in record.samples.items()} if record else {}
    if record and "artifact.sha256" in record.facts:
        bits["code"] = record.facts["artifact.sha256"]
    if not bits and verdict.state not in ("fail", "error", "missing"):
        return End(verdict.state, f"{verdict.state}, but no numbers and no code", bits)
    stage = f" in stage {record.stage}" if record and record.stage else ""
    message = "\n".join(filter(None, (verdict.reason, record.detail if record else "")))
    return End(verdict.state, f"{verdict.state}{stage}: {message}", bits)


def cold(lane: Lane) -> list[dict[str, End]]:
    """Begin with nothing."""
    fill(lane.cache)
    return [lane.run()]


def warm(lane: Lane) -> list[dict[str, End]]:
    """Begin with what a run left."""
    fill(lane.cache, lane.kept)
    return [lane.run()]


def shared(lane: Lane) -> list[dict[str, End]]:
    """Begin with nothing, in two processes."""
    fill(lane.cache)
    return lane.run_together()


def other_version(lane: Lane) -> list[dict[str, End]]:
    """Begin with what another version left."""
    fill(lane.cache)
    assert lane.other is not None
    assert all(end.bits for end in lane.run(job=lane.other, name="other").values()), "the other version runs"
    return [lane.run()]


def cut_short(lane: Lane) -> list[dict[str, End]]:
    """Begin with half of each file that a run left."""
    fill(lane.cache, lane.kept)
    for file in files_below(lane.cache):
        os.truncate(file, file.stat().st_size // 2)
    return [lane.run()]


def read_only_empty(lane: Lane) -> list[dict[str, End]]:
    """Begin with nothing, and nothing can be written."""
    fill(lane.cache)
    return [lane.run(disks.read_only(lane.cache))]


def read_only_filled(lane: Lane) -> list[dict[str, End]]:
    """Begin with what a run left, and nothing can be written."""
    fill(lane.cache, lane.kept)
    return [lane.run(disks.read_only(lane.cache))]


def full(lane: Lane) -> list[dict[str, End]]:
    """Begin with nothing, on a disk with room for half of what a run left."""
    fill(lane.cache)
    room = sum(file.stat().st_blocks * 512 for file in files_below(lane.kept)) // 2
    return [lane.run(disks.small(lane.cache, room))]


NEED_MOUNTS = {"read-only, empty", "read-only, filled", "full"}  # the kernel's process has mounts of its own
KINDS = {
    "cold": cold,
    "warm": warm,
    "shared": shared,
    "other-version": other_version,
    "cut-short": cut_short,
    "read-only, empty": read_only_empty,
    "read-only, filled": read_only_filled,
    "full": full,
}


def differences(lane: Lane, kinds: Iterable[str] = KINDS) -> dict[tuple[str, str], str]:
    """Return by kind and case what is different with a kind of cache from the first run, whose cache was empty.

    What is different in two runs with an empty cache, or has no numbers there, is not compared any further.
    """
    fill(lane.cache)
    first = lane.run()
    fill(lane.kept, lane.cache)
    assert files_below(lane.kept), "it keeps its files elsewhere"
    found: dict[tuple[str, str], str] = {}
    for kind in ("cold", *(kind for kind in kinds if kind != "cold" and (kind != "other-version" or lane.other))):
        steady = [case for case in first if ("cold", case) not in found]
        for ends in KINDS[kind](lane):
            texts = {case: first[case].difference(ends[case]) for case in steady}
            found |= {(kind, case): text for case, text in texts.items() if text}
    return found


def fill(cache: Path, source: Path | None = None) -> None:
    """Empty a cache, and copy the files of another one into it."""
    shutil.rmtree(cache, ignore_errors=True)
    if source:
        shutil.copytree(source, cache, symlinks=True)
    cache.mkdir(parents=True, exist_ok=True)


def files_below(folder: Path) -> list[Path]:
    """Return the files of a cache."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
