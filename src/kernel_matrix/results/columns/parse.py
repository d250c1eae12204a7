"""Read JUnit files into tables, many at a time, in a process of their own if there are many."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kernel_matrix.results import junit
from kernel_matrix.results.columns import batch
from kernel_matrix.results.columns.batch import Batch
from kernel_matrix.results.columns.schema import CASES, JOBS, OUTPUTS
from kernel_matrix.results.junit import BrokenResultError
from kernel_matrix.results.validation import Bounds, RefusedError

_FILES_AT_ONCE = 16
_FEW_BYTES = 16 * 2**20  # are read sooner than another process starts


@dataclass(frozen=True)
class Parsed:
    """Some files: why each is refused or broken, and the tables of those that are neither.

    The tables have a column ``file``: the place of the file among ``paths``.
    """

    paths: tuple[Path, ...]
    refused: dict[Path, str]
    broken: dict[Path, str]
    jobs: pa.Table
    cases: pa.Table
    outputs: pa.Table


def parse(paths: Sequence[Path], bounds: Bounds) -> Parsed:
    """Read some files."""
    refused: dict[Path, str] = {}
    broken: dict[Path, str] = {}
    batches: list[tuple[int, Batch]] = []
    for place, path in enumerate(paths):
        try:
            batches.append((place, batch.of_records(junit.read_any(path, bounds))))
        except RefusedError as error:
            refused[path] = str(error)
        except (BrokenResultError, OSError) as error:
            broken[path] = str(error)
    tables = [_joined([(place, getattr(of_file, name)) for place, of_file in batches], name) for name in _TABLES]
    return Parsed(tuple(paths), refused, broken, *tables)


def parse_all(
    paths: Sequence[Path], bounds: Bounds, processes: int = 2, few_bytes: int = _FEW_BYTES
) -> Iterator[Parsed]:
    """Read files in several processes, and yield them in their order."""
    groups = [paths[place : place + _FILES_AT_ONCE] for place in range(0, len(paths), _FILES_AT_ONCE)]
    if sum(path.stat().st_size for path in paths if path.is_file()) < few_bytes or processes < 2:
        yield from (parse(group, bounds) for group in groups)
        return
    # A process is started anew, because a fork of one that has threads may hang.
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        waiting: list[Future[Parsed]] = []
        for group in groups:
            waiting.append(pool.submit(parse, group, bounds))
            if len(waiting) > 2 * processes:  # no more than these are in memory
                yield waiting.pop(0).result()
        yield from (future.result() for future in waiting)


_TABLES = {"jobs": JOBS, "cases": CASES, "outputs": OUTPUTS}


def _joined(tables: Sequence[tuple[int, pa.Table]], name: str) -> pa.Table:
    """Return the rows of all tables, each with the place of its file."""
    schema = _TABLES[name].append(pa.field("file", pa.int32()))
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(
        [table.append_column("file", pa.array([place] * table.num_rows, pa.int32())) for place, table in tables]
    ).cast(schema)
