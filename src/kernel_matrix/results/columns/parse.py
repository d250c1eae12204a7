"""Read JUnit files into tables, many at a time, in a process of their own if there are many."""

from __future__ import annotations

import multiprocessing
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pyarrow as pa

from kernel_matrix.results import junit, samples, validation
from kernel_matrix.results.columns import batch
from kernel_matrix.results.columns.batch import Batch
from kernel_matrix.results.columns.schema import CASES, JOBS, OUTPUTS
from kernel_matrix.results.junit import BrokenResultError
from kernel_matrix.results.record import Record
from kernel_matrix.results.tables import journal, names
from kernel_matrix.results.tables.identity import identity
from kernel_matrix.results.validation import Bounds, RefusedError

Start = tuple[str | None, str]  # the name of a job, and when it started
_FILES_AT_ONCE = 16
_FEW_BYTES = 16 * 2**20  # are read sooner than another process starts


@dataclass(frozen=True)
class Parsed:
    """Some files: why each is refused or broken, the runs in each, and the tables of those that are neither.

    The tables have a column ``file``: the place of the file among ``paths``.
    """

    paths: tuple[Path, ...]
    refused: dict[Path, str]
    broken: dict[Path, str]
    runs: dict[Path, tuple[str, ...]]
    jobs: pa.Table
    cases: pa.Table
    outputs: pa.Table


def parse(paths: Sequence[Path], bounds: Bounds, twins: Collection[Start] = ()) -> Parsed:
    """Read some files. ``twins`` are jobs that are there as tables, so that JUnit XML of theirs may be a copy."""
    refused: dict[Path, str] = {}
    broken: dict[Path, str] = {}
    runs: dict[Path, tuple[str, ...]] = {}
    batches: list[tuple[int, Batch]] = []
    for place, path in enumerate(paths):
        try:
            records = read(path, bounds)
            batches.append((place, batch.of_records(records)))
            runs[path] = _runs(path, records, bounds, twins)
        except RefusedError as error:
            refused[path] = str(error)
        except (BrokenResultError, OSError) as error:
            broken[path] = str(error)
    tables = [_joined([(place, getattr(of_file, name)) for place, of_file in batches], name) for name in _TABLES]
    return Parsed(tuple(paths), refused, broken, runs, *tables)


def _runs(path: Path, records: Sequence[Record], bounds: Bounds, twins: Collection[Start]) -> tuple[str, ...]:
    """Return the runs of a file. One that may be there as tables gets the identity that these would have."""
    may_be_copies = any(start_of(record.job) in twins for record in records)
    if may_be_copies and samples.beside(path).exists():
        with suppress(RefusedError):
            records = samples.read(samples.beside(path), records, bounds)
    runs = []
    for run, group in groupby(records, key=lambda record: record.run):
        of_run = list(group)
        job = of_run[0].job
        runs.append(identity(job, of_run) if start_of(job) in twins else run)
    return tuple(runs)


def start_of(job: Mapping[str, str]) -> Start:
    """Return the name of a job, and when it started. The results of another tool name no job."""
    return job.get("job"), job.get("started", "")


def parse_all(
    paths: Sequence[Path],
    bounds: Bounds,
    processes: int = 2,
    few_bytes: int = _FEW_BYTES,
    twins: Collection[Start] = (),
) -> Iterator[Parsed]:
    """Read files in several processes, and yield them in their order."""
    groups = [paths[place : place + _FILES_AT_ONCE] for place in range(0, len(paths), _FILES_AT_ONCE)]
    if sum(path.stat().st_size for path in paths if path.is_file()) < few_bytes or processes < 2:
        yield from (parse(group, bounds, twins) for group in groups)
        return
    # A process is started anew, because a fork of one that has threads may hang.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        waiting: list[Future[Parsed]] = []
        for group in groups:
            waiting.append(pool.submit(parse, group, bounds, twins))
            if len(waiting) > 2 * processes:  # no more than these are in memory
                yield waiting.pop(0).result()
        yield from (future.result() for future in waiting)


def read(path: Path, bounds: Bounds) -> list[Record]:
    """Return the records of a journal, or of a JUnit file, whatever tool has written it.

    Raises:
        RefusedError: it holds more than honest results do, or figures that cannot be.
        BrokenResultError: it is not whole JUnit XML.
    """
    if names.is_journal(path):
        return journal.read(path, bounds)
    records = junit.read(path, bounds)
    validation.check_figures(records)
    return records


_TABLES = {"jobs": JOBS, "cases": CASES, "outputs": OUTPUTS}


def _joined(tables: Sequence[tuple[int, pa.Table]], name: str) -> pa.Table:
    """Return the rows of all tables, each with the place of its file."""
    schema = _TABLES[name].append(pa.field("file", pa.int32()))
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(
        [table.append_column("file", pa.array([place] * table.num_rows, pa.int32())) for place, table in tables]
    ).cast(schema)
