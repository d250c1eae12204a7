"""The record of a case: its result on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PROBE = "probe/"  # begins the ids of the records of probes
BENCH = "bench:"  # begins those of the benchmark; all other records are of cases of the plan

Outcome = Literal["pass", "fail", "error", "unavailable", "excluded", "missing"]


@dataclass(frozen=True)
class Sample:
    """A part of one output: the bits at the positions of :func:`kernel_matrix.job.sample.positions`.

    ``sha256`` are 16 hexadecimal digits of the digest of the whole output.
    """

    dtype: str
    shape: tuple[int, ...]
    sha256: str
    bits: bytes


@dataclass(frozen=True)
class Record:
    """The result of one case on one machine.

    ``action`` is what was done (``run``, ``emulate``, ``compile``, or nothing); ``attempts`` are the outcomes of the
    earlier tries, oldest first. ``job`` holds what all cases of the job share: versions, device, executor and so on.
    ``samples`` are parts of the outputs, by output. ``run`` is the key of the job: the identity of its results, which
    all records of one run of one job share. It is empty until the results are written.
    """

    case: str
    outcome: Outcome
    action: str = ""
    stage: str = ""
    message: str = ""
    detail: str = ""
    seconds: float = 0.0
    attempts: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    job: Mapping[str, str] = field(default_factory=dict)
    samples: Mapping[str, Sample] = field(default_factory=dict, repr=False)
    run: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """The message and the detail: the text that rules and expectations are matched with."""
        return f"{self.message}\n{self.detail}"


def is_probe_record(record: Record) -> bool:
    """Return whether a record is of a probe and not of a case."""
    return record.case.startswith(PROBE)


def is_bench_record(record: Record) -> bool:
    """Return whether a record is of the benchmark."""
    return record.case.startswith(BENCH)


def is_case_record(record: Record) -> bool:
    """Return whether a record is of a case that a plan can have."""
    return not record.case.startswith((PROBE, BENCH))


def versions_of(job: Mapping[str, str]) -> dict[str, str]:
    """Return the versions among the facts of a job, by distribution."""
    return {key.removeprefix("version."): value for key, value in job.items() if key.startswith("version.")}
