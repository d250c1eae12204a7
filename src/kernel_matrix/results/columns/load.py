"""Result folders -> tables: read all JUnit XML below them into the database, each file once.

A file that the database has from an earlier run is not read again. It is known by its size and times, else by the
digest of its content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import duckdb
import pyarrow as pa

from kernel_matrix.base.errors import UserError
from kernel_matrix.results import validation
from kernel_matrix.results.columns import batch
from kernel_matrix.results.columns.database import CASES_OF_A_FILE, JOBS_OF_A_FILE
from kernel_matrix.results.columns.parse import Parsed, parse_all
from kernel_matrix.results.columns.schema import FIGURES
from kernel_matrix.results.columns.sql import rows
from kernel_matrix.results.foreign import printable
from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Asked, Bounds, RefusedError

_BROKEN = "it is not whole"


@dataclass
class Loaded:
    """The files that were taken, and one sentence for each file that was not.

    ``refused`` has the reasons of the latter by job, for the cases that are missing because of it.
    """

    files: tuple[Path, ...] = ()
    broken: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def load(
    connection: duckdb.DuckDBPyConnection,
    folders: Sequence[Path],
    asked: Mapping[str, Asked] | None = None,
    bounds: Bounds | None = None,
    processes: int = 2,
) -> Loaded:
    """Read every ``*.xml`` below the folders, or the files themselves, and make them the present sources.

    With ``asked``, by job, a file is also compared with what its job was asked for.

    Raises:
        UserError: a folder does not exist.
    """
    bounds = bounds or Bounds()
    refused: dict[Path, str] = {}
    broken: dict[Path, str] = {}
    paths = list(dict.fromkeys(path for folder in folders for path in _result_files(folder, bounds, refused)))
    known = _known(connection, paths)
    new = [path for path in paths if path not in known]
    connection.execute("BEGIN")
    for parsed in parse_all(new, bounds, processes):
        refused |= parsed.refused
        broken |= parsed.broken
        known |= _insert(connection, parsed)
    connection.execute("COMMIT")
    if asked is not None:
        refused |= _not_asked_for(connection, known, asked)
    taken = [path for path in paths if path in known and path not in refused]
    _make_present(connection, [known[path] for path in taken])
    return _loaded(paths, taken, refused, broken)


def _loaded(
    paths: Sequence[Path], taken: Sequence[Path], refused: Mapping[Path, str], broken: Mapping[Path, str]
) -> Loaded:
    order = {path: place for place, path in enumerate(paths)}
    by_place = sorted(broken, key=lambda path: order.get(path, -1))
    sentences = [f"{broken[path]}. Its cases are missing below; fetch or make the file again." for path in by_place]
    reasons = {**refused, **dict.fromkeys(by_place, _BROKEN)}
    sentences += [f"{printable(path)}: refused: {reason}." for path, reason in refused.items()]
    return Loaded(tuple(taken), tuple(sentences), {printable(path.stem): reason for path, reason in reasons.items()})


def foreign(connection: duckdb.DuckDBPyConnection) -> dict[str, tuple[Record, ...]]:
    """Return the records that another tool has written, by file: case and outcome of each."""
    rows = connection.execute(
        """
        SELECT path, "case", outcome FROM cases JOIN sources USING (source) JOIN jobs USING (source, job)
        WHERE position IS NOT NULL AND jobs.facts['job'] IS NULL ORDER BY position, record
        """
    ).fetchall()
    by_file: dict[str, list[Record]] = {}
    for path, case, outcome in rows:
        by_file.setdefault(printable(path), []).append(Record(case, outcome))
    return {path: tuple(records) for path, records in by_file.items()}


def insert_tables(
    connection: duckdb.DuckDBPyConnection, jobs: object, cases: object, outputs: object, first: int
) -> None:
    """Insert Arrow tables whose column ``file`` is the number of the source less ``first``."""
    connection.register("new_jobs", jobs)
    connection.register("new_cases", cases)
    connection.register("new_outputs", outputs)
    number = f"(file + {first})::BIGINT"
    connection.execute(f"INSERT INTO jobs SELECT {number}, {number} * {JOBS_OF_A_FILE} + suite, facts FROM new_jobs")
    connection.execute(
        f"""
        INSERT INTO cases
        SELECT {number}, {number} * {JOBS_OF_A_FILE} + suite, {number} * {CASES_OF_A_FILE} + place, "case", outcome,
               action, stage, message, detail, seconds, attempts, facts, figures, facts['inputs.sha256'],
               facts['artifact.kind'], facts['canary.missed'], figures['elements'], figures['artifact.bytes'],
               figures['canary.injected'], figures['canary.caught']
        FROM new_cases
        """
    )
    figures = ", ".join(FIGURES)
    connection.execute(
        f"""
        INSERT INTO outputs
        SELECT {number}, {number} * {CASES_OF_A_FILE} + place, row_place, output, {figures}, others FROM new_outputs
        """
    )
    for name in ("new_jobs", "new_cases", "new_outputs"):
        connection.unregister(name)


def _insert(connection: duckdb.DuckDBPyConnection, parsed: Parsed) -> dict[Path, int]:
    """Insert files that were read, and return the number of each. One with the same content as another gets its own."""
    good = [path for path in parsed.paths if path not in parsed.refused and path not in parsed.broken]
    ((first,),) = connection.execute("SELECT coalesce(max(source), 0) + 1 FROM sources").fetchall()
    numbers = {path: first + place for place, path in enumerate(parsed.paths) if path in good}
    insert_tables(connection, parsed.jobs, parsed.cases, parsed.outputs, first)
    digests = dict(zip(parsed.paths, parsed.digests, strict=True))
    rows = [(number, str(path), stamp_of(path), digests[path], "junit", None) for path, number in numbers.items()]
    if rows:
        connection.executemany("INSERT INTO sources VALUES (?, ?, ?, ?, ?, ?)", rows)
    return numbers


def _known(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> dict[Path, int]:
    """Return the number of every file that the database has, and enter the new names and times of such files."""
    rows = connection.execute("SELECT path, stamp, sha256, source FROM sources").fetchall()
    by_stamp = {(path, stamp): source for path, stamp, _, source in rows}
    by_digest = {digest: source for _, _, digest, source in rows}
    known: dict[Path, int] = {}
    for path in paths if rows else ():
        stamp = stamp_of(path)
        if (source := by_stamp.get((str(path), stamp))) is None and path.is_file():
            if (source := by_digest.get(sha256(path.read_bytes()).hexdigest())) is None:
                continue
            connection.execute("UPDATE sources SET path = ?, stamp = ? WHERE source = ?", [str(path), stamp, source])
        if source is not None:
            known[path] = source
    return known


def stamp_of(path: Path) -> str:
    """Return what changes when a file is written again: its size, its times and its place on the disk."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_ino}"


def _make_present(connection: duckdb.DuckDBPyConnection, sources: Sequence[int]) -> None:
    """Give the sources their positions. Only the sources that have one count."""
    connection.execute("UPDATE sources SET position = NULL")
    if sources:
        rows = list(enumerate(dict.fromkeys(sources)))
        connection.execute("CREATE OR REPLACE TEMP TABLE positions (position INTEGER, source INTEGER)")
        connection.executemany("INSERT INTO positions VALUES (?, ?)", rows)
        connection.execute("UPDATE sources SET position = p.position FROM positions p WHERE p.source = sources.source")


def _not_asked_for(
    connection: duckdb.DuckDBPyConnection, known: Mapping[Path, int], asked: Mapping[str, Asked]
) -> dict[Path, str]:
    """Return why files are refused that are not what their jobs were asked for."""
    refused = {}
    for path, source in known.items():
        rows = connection.execute('SELECT "case", action FROM cases WHERE source = ? ORDER BY record', [source])
        try:
            validation.check_records(path, (Record(case, "pass", action) for case, action in rows.fetchall()), asked)
        except RefusedError as error:
            refused[path] = str(error)
    return refused


def _result_files(folder: Path, bounds: Bounds, refused: dict[Path, str]) -> Iterator[Path]:
    """Yield the files to read, and add those that are refused."""
    if not folder.exists():
        raise UserError(f"{folder}: there is no such results folder. Run the matrix first: `kernel-matrix matrix`")
    if folder.is_file():
        yield folder
        return
    good, bad = validation.find(folder, bounds)
    refused |= dict(bad)
    yield from good


def add_records(connection: duckdb.DuckDBPyConnection, name: str, records: Sequence[Record]) -> None:
    """Add records that come from no file as a present source, after all others."""
    of_records = batch.of_records(records)
    jobs, cases, outputs = (
        table.append_column("file", pa.array([0] * table.num_rows, pa.int32()))
        for table in (of_records.jobs, of_records.cases, of_records.outputs)
    )
    (first,) = rows(connection, "SELECT coalesce(max(source), 0) + 1 FROM sources")[0]
    (position,) = rows(connection, "SELECT coalesce(max(position), -1) + 1 FROM sources")[0]
    insert_tables(connection, jobs, cases, outputs, first)
    connection.execute("INSERT INTO sources VALUES (?, ?, '', '', 'records', ?)", [first, name, position]).fetchall()
