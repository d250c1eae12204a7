"""The identity of results: equal results have the same one, on every machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from kernel_matrix.results.record import Record


def identity(records: Iterable[Record], *, with_samples: bool = True) -> str:
    """Return 16 hexadecimal digits that follow from the facts of a job and from all that its records say.

    The order of the records, and that of facts and metrics, does not matter. Without samples, the results of a job are
    the same whether or not the file with its samples came with them.
    """
    digest = sha256()
    for number, record in enumerate(sorted(records, key=lambda record: record.case)):
        if not number:
            digest.update(_text(dict(record.job)))
        digest.update(_text(_content(record, with_samples=with_samples)))
    return digest.hexdigest()[:16]


def _content(record: Record, *, with_samples: bool) -> list[Any]:
    samples = record.samples.items() if with_samples else ()
    return [
        *(record.case, record.outcome, record.action, record.stage, record.message, record.detail),
        float(record.seconds),
        list(record.attempts),
        {name: float(value) for name, value in record.metrics.items()},
        dict(record.facts),
        {name: [one.dtype, list(one.shape), one.sha256, one.bits.hex()] for name, one in samples},
    ]


def _text(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode() + b"\n"
