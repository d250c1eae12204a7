"""Records of one run of a job -> its four tables; where this Python has no pyarrow, a journal in their place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace as with_changes
from pathlib import Path

from kernel_matrix.base.printing import printable_text
from kernel_matrix.store import journal, names
from kernel_matrix.store.names import JobFiles
from kernel_matrix.store.record import Record, identity


def write(folder: Path, job: Mapping[str, str], records: Sequence[Record], *, as_tables: bool = True) -> Path:
    """Write the results of one run of a job into a folder, and return the file that stands for them.

    This is the file of the table of jobs; or a journal, without ``as_tables`` and on a machine without pyarrow. ``job``
    are the facts of the job. The same results give the same name and the same bytes. Each file appears whole, and the
    one that is returned comes last.

    Raises:
        ValueError: the records have a case twice, or the facts name no job.
        OSError: a file cannot be written.
    """
    facts = _clean(job)
    records = [_printable(record, facts) for record in records]
    if len({record.case for record in records}) < len(records):
        raise ValueError(f"the job {facts.get('job', '')!r} has a case twice")
    run = identity(facts, records)
    name = names.name_of(facts.get("job", ""), run)
    if not as_tables:
        return journal.write(folder, name, facts, records)
    try:
        # pyarrow takes long to import, and not every machine has it.
        from kernel_matrix.store.rows import tables, write_table
    except ImportError:
        return journal.write(folder, name, facts, records)
    files = JobFiles(folder, name)
    try:
        for table, content in tables(run, facts, records):
            write_table(files.path(table), content)
    except OSError:  # a run counts with all of its tables or not at all
        for path in () if files.path("jobs").exists() else files.paths:
            path.unlink(missing_ok=True)
        raise
    return files.path("jobs")


def replace(folder: Path, job: Mapping[str, str], records: Sequence[Record], *, as_tables: bool = True) -> Path:
    """Write the results of a job, and delete the results of its earlier runs from the folder."""
    path = write(folder, job, records, as_tables=as_tables)
    names.remove(folder, job["job"], but=[path.stem])
    return path


def write_all(folder: Path, records: Iterable[Record]) -> list[Path]:
    """Write records of several runs, by their ``run``.

    Raises:
        ValueError: a run cannot be written (see ``write``).
    """
    runs: dict[str, list[Record]] = {}
    for record in records:
        runs.setdefault(record.run, []).append(record)
    return [write(folder, of_run[0].job, of_run) for of_run in runs.values()]


def facts_of(path: Path) -> dict[str, str]:
    """Return the facts of a job from the file that its run has returned (``write.write``)."""
    return next(iter(facts_by_run(path).values()))


def facts_by_run(path: Path) -> dict[str, dict[str, str]]:
    """Return the facts of each run in a table of jobs, or in a journal in its place."""
    if names.is_journal(path):
        with path.open(encoding="utf-8") as file:
            return {names.parts_of(path.stem)[1]: dict(json.loads(file.readline())["facts"])}
    import pyarrow.parquet as pq  # it takes long to import

    rows = pq.ParquetFile(path).read(["run", "facts"]).to_pylist()
    return {row["run"]: dict(row["facts"]) for row in rows}


def _printable(record: Record, job: Mapping[str, str]) -> Record:
    """Return a record as it is written: without texts that nobody can read, and with a short time."""
    return with_changes(
        record,
        message=printable_text(record.message),
        detail=printable_text(record.detail).strip(),
        seconds=round(float(record.seconds), 4),
        facts={key: value for key, value in _clean(record.facts).items() if value},
        job=job,
    )


def _clean(facts: Mapping[str, str]) -> dict[str, str]:
    return {printable_text(key): printable_text(str(value)) for key, value in facts.items()}
