"""Entries of a journal -> records: while a job runs, at its end, and where no tables could be written.

A machine whose Python has no pyarrow leaves the results of a job as a journal, ``journals/JOB-RUN.jsonl``: one entry
with the facts of the job, and one for the end of each case. RUN is the identity that the tables of the same results
have. Whoever reads the folder makes the tables, and finds a file that was changed by its identity.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from kernel_matrix.base.files import write_atomically
from kernel_matrix.store import names, samples
from kernel_matrix.store.record import HEAD, Outcome, Record, identity
from kernel_matrix.store.validation import Bounds, RefusedError, check_figures, check_job

Entry = Mapping[str, Any]

_FORGED = "the journal holds an entry that neither the harness nor the process that compares has written"
_TWICE = "the journal says twice how this case went: after its end it {} again"


class _Job(BaseModel):
    """The first entry of a journal that was left in place of tables."""

    model_config = ConfigDict(extra="forbid", strict=True)
    entry: Literal["job"]
    facts: dict[str, str]


class _End(BaseModel):
    """Each entry after it."""

    model_config = ConfigDict(extra="forbid", strict=True)
    entry: Literal["end"]
    case: str
    outcome: Outcome
    action: str
    stage: str
    message: str
    detail: str
    seconds: float
    attempts: list[str]
    metrics: dict[str, float]
    facts: dict[str, str]
    samples: dict[str, Any]


@dataclass
class Ends:
    """The cases of a job that have ended, and what the job's processes said of their environment."""

    attempts: int = 1  # at a case that does not pass
    facts: dict[str, str] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    earlier: dict[str, list[str]] = field(default_factory=dict)  # by case: the ends of the attempts before the last
    forged: bool = False  # whether somebody else has written into the journal since the last case ended

    def take(self, entry: Entry) -> Record | None:
        """Take in the next entry. Return the record of the case that it ends; None if it ends none for good."""
        match entry["entry"]:
            case "job":
                self.facts = {key: str(value) for key, value in entry["facts"].items()}
            case "forged":
                self.forged = True
            case "start" | "end" if entry["case"] in self.records:
                return self._contradicted(entry)
            case "end":
                return self._end(entry)
        return None

    def _contradicted(self, entry: Entry) -> Record:
        """Return the record of a case that had ended for good: nobody knows which of its ends is true."""
        message = _TWICE.format("begins" if entry["entry"] == "start" else "ends")
        record = replace(self.records[entry["case"]], outcome="error", stage="launch", message=message)
        self.records[record.case] = record
        return record

    def _end(self, entry: Entry) -> Record | None:
        if self.forged:
            self.forged = False
            entry = {**entry, "outcome": "error", "stage": "launch", "message": _FORGED}
        case, outcome = entry["case"], entry["outcome"]
        earlier = self.earlier.setdefault(case, [*entry.get("attempts", ())])
        if outcome not in ("pass", "unavailable") and len(earlier) + 1 < self.attempts:
            earlier.append(f"{outcome}:{entry.get('stage') or ''}".rstrip(":"))
            return None
        self.records[case] = record_of(entry, earlier)
        return self.records[case]


def record_of(entry: Entry, earlier: Sequence[str]) -> Record:
    """Return the record of a case from the entry of its end, and from the ends of its earlier attempts."""
    outcome: Outcome = entry["outcome"]
    return Record(
        case=entry["case"],
        outcome=outcome,
        action=entry.get("action", ""),
        stage=entry.get("stage") or "",
        message=entry.get("message") or "",
        detail=entry.get("detail") or "",
        seconds=entry.get("seconds", 0.0),
        attempts=tuple(earlier),
        metrics=entry.get("metrics", {}),
        facts=entry.get("facts", {}),
        samples=samples.of_entry(entry.get("samples")),
    )


def write(folder: Path, name: str, job: Mapping[str, str], records: Iterable[Record]) -> Path:
    """Write the results of a job as a journal, and return its file."""
    path = folder / names.JOURNALS / f"{name}{names.JOURNAL}"
    entries = [{"entry": "job", "facts": dict(job)}, *map(_entry, records)]
    write_atomically(path, "".join(f"{json.dumps(entry)}\n" for entry in entries))
    return path


def _entry(record: Record) -> dict[str, Any]:
    return {
        "entry": "end",
        **{name: getattr(record, name) for name in HEAD},
        "attempts": list(record.attempts),
        "metrics": dict(record.metrics),
        "facts": dict(record.facts),
        "samples": samples.to_entry(record.samples),
    }


def read(path: Path, bounds: Bounds) -> list[Record]:
    """Return the records of a journal that was left in place of tables. The machine that sent it is not trusted.

    Raises:
        RefusedError: it is no such journal, holds more than honest results do, or was changed.
    """
    job, run = names.parts_of(path.name.removesuffix(names.JOURNAL))
    if not run:
        raise RefusedError("a journal's name is JOB-IDENTITY.jsonl, of letters, digits and . _ + -")
    try:
        first, *entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        facts = _Job.model_validate(first).facts
        records = [record_of(_End.model_validate(entry).model_dump(), entry["attempts"]) for entry in entries]
    except (ValueError, OSError, RecursionError) as error:
        raise RefusedError(f"it is no whole journal ({' '.join(str(error).split())[:150]})") from None
    if facts.get("job") != job:
        raise RefusedError("it is of another job than its name says")
    if (content := identity(facts, records)) != run:
        raise RefusedError(f"its content is that of the run {content}, and not of {run}: the file was changed")
    _check(facts, records, bounds)
    return [replace(record, job=facts, run=run) for record in records]


def _check(facts: Mapping[str, str], records: Sequence[Record], bounds: Bounds) -> None:
    """Check the conditions that every row of a table meets.

    Raises:
        RefusedError: a record holds what no job writes.
    """
    if len(records) > bounds.cases:
        raise RefusedError(f"it has more than {bounds.cases} cases")
    if len({record.case for record in records}) < len(records):
        raise RefusedError("it has a case twice")
    if any(len(text) > bounds.text for text in (*facts, *facts.values(), *chain(*map(_texts, records)))):
        raise RefusedError(f"a text is longer than {bounds.text} characters")
    check_job(facts)
    if any(max(len(record.metrics), len(record.facts)) > bounds.properties for record in records):
        raise RefusedError(f"a case has more than {bounds.properties} properties")
    check_figures(records)
    for record in records:
        samples.check(record)


def _texts(record: Record) -> Iterator[str]:
    yield from (record.case, record.action, record.stage, record.message, record.detail)
    yield from (*record.attempts, *record.metrics, *record.facts, *record.facts.values())
