"""The record of a case, its figures by output, and the identity of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any, Literal

PROBE = "probe/"  # begins the ids of the records of probes
BENCH = "bench:"  # begins the ids of the benchmark; all other records are of cases of the plan

# The facts of a job that a person outside the project ran: the account, the fingerprint of the key, and the time.
TOLD_BY, TOLD_KEY, TOLD_AT = "told.by", "told.key", "told.at"
TOLD_INVENTORY = "inventory.json"  # lies next to the folder of such results, with the signature

HEAD = ("case", "outcome", "action", "stage", "message", "detail", "seconds")  # what each form of a record begins with

NOT_OUTPUTS = ("artifact", "time", "canary", "bench")  # their figures are of no output

Outcome = Literal["pass", "fail", "error", "unavailable", "excluded", "missing"]
WORST_FIRST: tuple[Outcome, ...] = ("fail", "error", "missing", "unavailable", "excluded", "pass")


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


def outputs_of(metrics: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return the figures by output; the output of a variant has the variant's name, as ``h_in@products``."""
    by_output: dict[str, dict[str, float]] = {}
    for key, value in metrics.items():
        if parts := output_and_figure(key):
            by_output.setdefault(parts[0], {})[parts[1]] = value
    return by_output


@lru_cache(maxsize=4096)  # the metrics of most records have the same names
def output_and_figure(name: str) -> tuple[str, str] | None:
    """Return the output and the figure that the name of a metric is made of; None if it is of no output."""
    output, dot, figure = name.rpartition(".")
    return (output, figure) if dot and output.partition(".")[0] not in NOT_OUTPUTS else None


def versions_of(job: Mapping[str, str]) -> dict[str, str]:
    """Return the versions among the facts of a job, by distribution."""
    return {key.removeprefix("version."): value for key, value in job.items() if key.startswith("version.")}


def identity(job: Mapping[str, str], records: Iterable[Record]) -> str:
    """Return 16 hexadecimal digits that follow from the facts of a job and from all that its records say.

    The order of the records, of their facts and of their metrics does not matter.
    """
    digest = sha256(_text(dict(job)))
    for record in sorted(records, key=lambda record: record.case):
        digest.update(_text(_content(record)))
    return digest.hexdigest()[:16]


def _content(record: Record) -> list[Any]:
    return [
        *(record.case, record.outcome, record.action, record.stage, record.message, record.detail),
        float(record.seconds),
        list(record.attempts),
        {name: float(value) for name, value in record.metrics.items()},
        dict(record.facts),
        {name: [one.dtype, list(one.shape), one.sha256, one.bits.hex()] for name, one in record.samples.items()},
    ]


def _text(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n"
