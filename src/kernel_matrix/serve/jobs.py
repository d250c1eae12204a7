"""The jobs of a run that goes on in another process: which have ended, and what the journals of the others say."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from kernel_matrix.base.git import commit
from kernel_matrix.ci.engines import state
from kernel_matrix.config.locks import lock_file
from kernel_matrix.config.plan import Case, Cell, Job
from kernel_matrix.pipeline import Project
from kernel_matrix.run.proven import Proven, key_to_share, shared_key
from kernel_matrix.store import names
from kernel_matrix.store.journal import Ends
from kernel_matrix.store.record import Record


@dataclass(frozen=True)
class LiveJob:
    """A job of the run that goes on."""

    id: str
    cases: tuple[str, ...]  # the ids of all of its cases; empty where nobody can tell
    has_ended: bool
    has_begun: bool
    ends: Mapping[str, Record]  # by case; none of a job that has ended, whose results say more


@dataclass(frozen=True)
class LiveRun:
    """The jobs that a run holds at this moment, and when that run began, in seconds since 1970."""

    jobs: tuple[LiveJob, ...] = ()
    began: float = 0.0

    @property
    def goes_on(self) -> bool:
        """True if a run holds a job."""
        return bool(self.jobs)

    @property
    def ends(self) -> list[Record]:
        """The results that the journals of the jobs have."""
        return [record for job in self.jobs for record in job.ends.values()]

    @property
    def ended(self) -> int:
        """The number of jobs that have ended."""
        return sum(job.has_ended for job in self.jobs)


@dataclass
class _Reader:
    """A journal that is read on and on. A job that begins anew has another file."""

    path: Path
    build: Path
    inode: int = 0
    proven: Proven | None = None
    ends: Ends = field(default_factory=Ends)

    def read(self, attempts: int, key: str) -> None:
        """Take in what has been proven since; ``key`` has signed the marks of other nodes.

        Raises:
            OSError: nothing is, or the journal was changed.
        """
        inode = self.path.stat().st_ino
        if inode != self.inode or self.proven is None:
            self.inode, self.proven = inode, Proven(self.path, self.build, self.path.parent.name, key)
            self.ends = Ends(attempts)
        for entry in self.proven.new_entries():
            self.ends.take(entry)


class LiveJobs:
    """Look at the jobs of a build folder again and again. Nothing there is written, and no lock is taken."""

    def __init__(self, project: Project, jobs: Iterable[Job], cases: Iterable[Case]) -> None:
        """Take the plan's ``jobs``: they have the cases of a job that has not begun."""
        self.project = project
        self.planned = {job.id: tuple(case.id for case in job.cases) for job in jobs}
        self.cases = {case.id: case for case in cases}
        self.readers: dict[str, _Reader] = {}
        self.key = shared_key()  # by which the marks of other nodes are believed

    def look(self) -> LiveRun:
        """Return the run that goes on; one without jobs if there is none."""
        folder = self.project.build / "jobs"
        held = {name: _process_start(pid) for name, pid in _held(folder).items()}
        began = min(held.values(), default=time.time())
        if submitted := state.going_on(self.project.build):
            self.key = self.key or key_to_share()
            # The clock of a file system may be another one: a file is compared with a file.
            written = state.plan_of(self.project.build).stat().st_mtime
            held |= dict.fromkeys(submitted.jobs, written)
            began = min(began, submitted.created)
        if not held:
            self.readers.clear()
            return LiveRun()
        return LiveRun(tuple(self._job(folder / name, since) for name, since in sorted(held.items())), began)

    def _job(self, folder: Path, since: float) -> LiveJob:
        name = folder.name
        has_ended = names.result_of(self.project.results, name) is not None
        journal = folder / "journal.jsonl"
        # A job that waits still has the journal of an earlier run in its folder.
        has_begun = has_ended or _is_newer(journal, since)
        cases = _cases_of(folder / "job.json") if _is_newer(folder / "job.json", since) else ()
        ends = {} if has_ended or not has_begun else self._ends(name, journal)
        return LiveJob(name, cases or self.planned.get(name, ()), has_ended, has_begun, ends)

    def _ends(self, name: str, path: Path) -> dict[str, Record]:
        reader = self.readers.setdefault(name, _Reader(path, self.project.build))
        try:
            reader.read(self.project.matrix.limits.attempts, self.key)
        except OSError:  # the job begins at this very moment
            return {}
        ended = {case: record for case, record in reader.ends.records.items() if case in self.cases}
        facts = self._facts(name, [self.cases[case].cell for case in ended], reader)
        return {case: replace(record, job=facts) for case, record in ended.items()}

    def _facts(self, name: str, cells: Sequence[Cell], reader: _Reader) -> dict[str, str]:
        """Return the facts of a job that has not ended, as far as they are known outside of its run.

        The run chose the device by the targets of its cases, so it has these targets.
        """
        if not cells:
            return {}
        first, root = cells[0], self.project.root
        lock = lock_file(root, self.project.matrix.lock_of(first.platform, first.toolchain))
        return {
            "job": name,
            "platform": first.platform,
            "toolchain": first.toolchain,
            "device.vendor": first.vendor,
            "device.targets": " ".join(sorted({cell.target for cell in cells})),
            "commit": commit(root),
            "lock.sha256": sha256(lock.read_bytes()).hexdigest() if lock.is_file() else "",
            "started": f"{datetime.fromtimestamp(reader.path.stat().st_mtime, UTC):%Y-%m-%dT%H:%M:%SZ}",
            **reader.ends.facts,
        }


def _held(folder: Path) -> dict[str, int]:
    """Return the process that holds the lock of each job, by the job's id.

    The system lists all locks. Trying a lock instead would keep a run that begins at that moment from taking it.
    """
    locks = {path.stat().st_ino: path.stem for path in folder.glob("*.lock")}
    held = {}
    for inode, pid in _locks() if locks else ():
        if inode in locks and Path(f"/proc/{pid}").exists():
            held[locks[inode]] = pid
    return held


def _locks() -> Iterator[tuple[int, int]]:
    """Yield inode and process of each lock on a whole file: ``1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF``."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()
        if len(words) > 5 and words[1] == "FLOCK":
            yield int(words[5].rpartition(":")[2]), int(words[4])


def _process_start(pid: int) -> float:
    """Return when a process began, in seconds since 1970; this moment if it has just ended."""
    try:
        ticks = int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return time.time()
    # In this order: a pause between the two clocks makes the process older, and never younger than its own files.
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def _is_newer(path: Path, since: float) -> bool:
    try:
        return path.stat().st_mtime >= since
    except OSError:
        return False


def _cases_of(path: Path) -> tuple[str, ...]:
    """Return the ids of the cases of a job that has begun, as its run has written them."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return tuple(str(case["id"]) for case in content["cases"])
    except (OSError, ValueError, KeyError):
        return ()
