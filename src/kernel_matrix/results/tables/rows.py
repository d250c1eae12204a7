"""Records -> the tables of one run, and their files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernel_matrix.base.files import written_whole
from kernel_matrix.results.limits import outputs_of
from kernel_matrix.results.record import BENCH, Record, is_probe_record
from kernel_matrix.results.tables.schema import FIGURES, SCHEMAS, VERSION

Row = dict[str, Any]
_LEVEL = 9  # of zstd: a tenth smaller than the usual 3, and still a few milliseconds for a job

_PARTS = ("platform", "target", "toolchain", "op", "direction", "name")
# The columns of a job that are facts of it, by the name of the fact.
_OF_JOB = {
    **{name: name for name in ("job", "platform", "toolchain", "device", "driver", "executor", "commit")},
    "lock.sha256": "lock_sha256",
}


def tables(run: str, job: Mapping[str, str], records: Sequence[Record]) -> Iterator[tuple[str, pa.Table]]:
    """Yield the four tables of a run, in the order in which they are written: the table of jobs comes last."""
    yield "samples", table_of("samples", sample_rows(run, records))
    yield "outputs", table_of("outputs", output_rows(run, records))
    yield "cases", table_of("cases", case_rows(run, records))
    yield "jobs", table_of("jobs", [job_row(run, job)])


def table_of(table: str, content: Iterable[Row]) -> pa.Table:
    """Return rows as a table of Arrow."""
    schema, every = SCHEMAS[table], list(content)
    columns = [pa.array([row[column.name] for row in every], column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table as a Parquet file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        written_whole(path) as part,
        pq.ParquetWriter(
            part,
            table.schema,
            compression="zstd",
            compression_level=_LEVEL,
            store_schema=False,  # Parquet's own types say enough, and Arrow's copy of the schema has kilobytes
            write_statistics=["run", "case"],  # those of the other columns would be larger than a small job
        ) as file,
    ):
        file.write_table(table)
        file.add_key_value_metadata(dict(table.schema.metadata))


def job_row(run: str, facts: Mapping[str, str]) -> Row:
    """Return the row of a job."""
    return {
        "run": run,
        **{column: facts.get(fact, "") for fact, column in _OF_JOB.items()},
        "started": _moment(facts.get("started", "")),
        "seconds": _number(facts.get("seconds", "")),
        "facts": list(facts.items()),
        "schema_version": VERSION,
    }


def case_rows(run: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield the row of each record."""
    for record in records:
        of_outputs = {f"{name}.{figure}" for name, figures in outputs_of(record.metrics).items() for figure in figures}
        yield {
            "run": run,
            "case": record.case,
            **parts_of(record),
            **{name: getattr(record, name) for name in ("outcome", "action", "stage", "message", "detail")},
            "seconds": float(record.seconds),
            "attempts": list(record.attempts),
            "inputs_sha256": record.facts.get("inputs.sha256", ""),
            "artifact_kind": record.facts.get("artifact.kind", ""),
            "facts": list(record.facts.items()),
            "figures": [(name, float(value)) for name, value in record.metrics.items() if name not in of_outputs],
        }


def output_rows(run: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield a row for each output of each record."""
    for record in records:
        for output, figures in outputs_of(record.metrics).items():
            others = [(name, float(value)) for name, value in figures.items() if name not in FIGURES]
            row: Row = {"run": run, "case": record.case, "output": output, "others": others}
            yield row | {name: figures.get(name) for name in FIGURES}


def sample_rows(run: str, records: Sequence[Record]) -> Iterator[Row]:
    """Yield a row for each sample of each record."""
    for record in records:
        for output, sample in record.samples.items():
            of_sample = {"dtype": sample.dtype, "shape": list(sample.shape), "sha256": sample.sha256}
            yield {"run": run, "case": record.case, "output": output, **of_sample, "bits": sample.bits}


def parts_of(record: Record) -> dict[str, str]:
    """Return the parts of a case's id; empty ones for a probe, and for an id of another form."""
    parts = record.case.removeprefix(BENCH).split("/", 4)
    op, dot, direction = parts[3].rpartition(".") if len(parts) == 5 else ("", "", "")
    if not dot or is_probe_record(record):
        return dict.fromkeys(_PARTS, "")
    return dict(zip(_PARTS, (*parts[:3], op, direction, parts[4]), strict=True))


def _moment(text: str) -> datetime | None:
    """Return the time in UTC, without a zone."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
