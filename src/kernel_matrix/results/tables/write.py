"""Records of one job -> its four files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kernel_matrix.base.files import written_whole
from kernel_matrix.results.record import Record
from kernel_matrix.results.tables import names, rows
from kernel_matrix.results.tables.identity import identity
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.tables.schema import SCHEMAS

_LEVEL = 9  # of zstd: a tenth smaller than the usual 3, and still a few milliseconds for a job


def write(folder: Path, records: Sequence[Record]) -> JobFiles:
    """Write the records of one run of a job into a folder of tables, and return its files.

    The same records give the same name and the same bytes. Each file appears whole, and that of the job comes last.

    Raises:
        ValueError: there is no record, the records are of several jobs, have a case twice, or name no job.
        OSError: a file cannot be written.
    """
    if not records or any(record.job != records[0].job for record in records):
        raise ValueError("the records must be those of one job")
    if len({record.case for record in records}) < len(records):
        raise ValueError(f"the job {records[0].job.get('job', '')!r} has a case twice")
    facts = records[0].job
    run = identity(records)
    files = JobFiles(folder, names.name_of(facts.get("job", ""), run))
    tables = {
        "samples": rows.sample_rows(run, records),
        "outputs": rows.output_rows(run, records),
        "cases": rows.case_rows(run, records),
        "jobs": iter([rows.job_row(run, facts)]),
    }
    for table, content in tables.items():
        _write(files.path(table), table_of(table, content))
    return files


def write_all(folder: Path, records: Iterable[Record]) -> list[JobFiles]:
    """Write the records of several jobs: those of one job share the object of its facts.

    Raises:
        ValueError: a job cannot be written (see ``write``).
    """
    jobs: dict[int, list[Record]] = {}
    for record in records:
        jobs.setdefault(id(record.job), []).append(record)
    return [write(folder, of_job) for of_job in jobs.values()]


def replace(folder: Path, records: Sequence[Record]) -> JobFiles:
    """Write the records of a job, and delete those of its earlier runs from the folder."""
    files = write(folder, records)
    names.remove(folder, files.job, but=files.name)
    return files


def table_of(table: str, content: Iterable[rows.Row]) -> pa.Table:
    """Return rows as a table of Arrow."""
    schema, every = SCHEMAS[table], list(content)
    columns = [pa.array([row[column.name] for row in every], column.type) for column in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _write(path: Path, table: pa.Table) -> None:
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
