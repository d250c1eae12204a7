"""Leave out the results of a job that are there twice: as JUnit XML and as tables, or copied from another folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from kernel_matrix.results.record import Record
from kernel_matrix.results.tables.identity import identity

_Start = tuple[str, str]  # the name of a job, and when it started


@dataclass
class _Job:
    """The records of one run of one job in one file."""

    records: list[Record]

    @cached_property
    def identity(self) -> str:
        """The identity without samples. It takes a while, and is needed only where a job has the same start twice."""
        return identity(self.records, with_samples=False)

    @cached_property
    def whole_identity(self) -> str:
        """The identity with samples."""
        return identity(self.records)

    @property
    def samples(self) -> int:
        """The number of records that have samples."""
        return sum(bool(record.samples) for record in self.records)

    @property
    def start(self) -> _Start | None:
        """The name of the job and its start; None for the records of another tool, which name no job."""
        facts = self.records[0].job
        return (facts["job"], facts.get("started", "")) if "job" in facts else None


@dataclass
class Unique:
    """The files that count, and the records of each job once, in the order in which they came."""

    files: list[Path] = field(default_factory=list)
    _jobs: list[_Job] = field(default_factory=list)
    _by_start: dict[_Start, list[_Job]] = field(default_factory=lambda: defaultdict(list))

    @property
    def records(self) -> tuple[Record, ...]:
        """All records."""
        return tuple(record for job in self._jobs for record in job.records)

    def add(self, path: Path, records: Sequence[Record]) -> bool:
        """Take in a file, and return whether it counts.

        It does not if all of its jobs are there already. Samples that the former file did not bring are kept.
        """
        jobs = _jobs_of(records)
        equal = [self._equal_to(job) for job in jobs]
        if jobs and all(equal):
            for job, former in zip(jobs, equal, strict=True):
                if former and job.samples > former.samples:
                    former.records = job.records
            return False
        self.files.append(path)
        self._jobs += jobs
        for job in jobs:
            if job.start is not None:
                self._by_start[job.start].append(job)
        return True

    def has(self, job: str, run: str) -> bool:
        """Return whether a run of a job is there with all its samples, by the identity that its tables are named by."""
        of_job = (other for start, jobs in self._by_start.items() if start[0] == job for other in jobs)
        return any(other.whole_identity == run for other in of_job)

    def _equal_to(self, job: _Job) -> _Job | None:
        """Return the same run of the job from an earlier file."""
        if job.start is None:
            return None
        return next((other for other in self._by_start[job.start] if other.identity == job.identity), None)


def _jobs_of(records: Iterable[Record]) -> list[_Job]:
    """Return the records by job: those of one job share the object of its facts."""
    jobs: dict[int, list[Record]] = {}
    for record in records:
        jobs.setdefault(id(record.job), []).append(record)
    return [_Job(of_job) for of_job in jobs.values()]
