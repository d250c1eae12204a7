"""The identity of results: equal results have the same one, on every machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from kernel_matrix.results.record import Record


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
