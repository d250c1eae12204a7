"""Checks of the files of a run before its rows are read. The machine that sent them is not trusted.

The files of one run are good together or not at all: a table that is absent, cut short or changed makes all of its
cases missing. What this finds in the rows is found by DuckDB, which takes every text of a table for as long as it is
without making a copy of each, so that a small file that unpacks to a large one costs no memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from kernel_matrix.base.printing import CONTROL
from kernel_matrix.store import apart
from kernel_matrix.store.database import connect
from kernel_matrix.store.names import JOB_NAME, RUN_NAME, TABLES, JobFiles
from kernel_matrix.store.reading import source_of
from kernel_matrix.store.record import BENCH, NOT_OUTPUTS, PROBE, Outcome
from kernel_matrix.store.schema import ADDED, FACTS_OF_CASE, FACTS_OF_JOB, FIGURES, LATER, OLDEST, SCHEMAS, VERSION
from kernel_matrix.store.validation import FINITE, FIRST, Bounds, RefusedError, Together, check_name

_AT_ONCE = 250  # runs: each question takes as long to plan as to answer for 20 runs
_OF_CASES = ("outputs", "samples")  # the tables whose rows are of cases of the run
# The columns whose texts no other condition holds to the run, to the case or to a list of words.
_FREE = {
    "jobs": (),
    "cases": ('"case"', "action", "stage", "message", "detail"),
    "outputs": ("output",),
    "samples": ("output",),
}
_KEYS = {"jobs": "run", "cases": 'run, "case"', **dict.fromkeys(_OF_CASES, 'run, "case", output')}  # of a row

WITH_CONTROL = "a text has a control character, which no job writes"

Known = tuple[Bounds, tuple[tuple[str, int, int], ...]]
_GOOD: set[Known] = set()  # those that were found to be good
_BUSY: set[Known] = set()  # those that a thread looks at
_CHANGED = threading.Condition()  # a thread has ended


def check(runs: Iterable[JobFiles], bounds: Bounds | None = None, *, rows: bool = True) -> dict[JobFiles, str]:
    """Return why runs are not taken, by run. A run that is not among these can be read with ``read``, or by DuckDB.

    Without ``rows``, only names, sizes, columns and versions are looked at. This is enough for who asks a question of
    files that he has chosen, and takes a tenth of the time. Files that were good once are not opened again by the same
    process while their sizes and times of change are the same.
    """
    return {files: fault for _, refused in checked(runs, bounds, rows=rows) for files, fault in refused.items()}


def checked(
    runs: Iterable[JobFiles], bounds: Bounds | None = None, *, rows: bool = True
) -> Iterator[tuple[list[JobFiles], dict[JobFiles, str]]]:
    """Yield some runs after the other as soon as they are checked, with why some of them are not taken.

    What another thread looks at meanwhile is waited for, and not looked at again.
    """
    limits, together = bounds or Bounds(), Together()
    for part in _parts([*runs]):
        states = {files: _state_of(files, limits) for files in part}
        with _alone({*states.values()}):
            refused = _refused(states, limits, together, rows=rows)
        yield part, refused


def _parts(runs: list[JobFiles]) -> Iterator[list[JobFiles]]:
    return (runs[first : first + _AT_ONCE] for first in range(0, len(runs), _AT_ONCE))


def _refused(
    states: Mapping[JobFiles, Known], bounds: Bounds, together: Together, *, rows: bool
) -> dict[JobFiles, str]:
    refused: dict[JobFiles, str] = {}
    sizes: dict[JobFiles, int] = {}
    for files in states:
        try:
            sizes[files] = _size_of(files, bounds)
        except RefusedError as error:
            refused[files] = str(error)
    if new := [files for files in sizes if states[files] not in _GOOD]:
        refused |= _check_footers(new, bounds)
    for files in (files for files in sizes if files not in refused):
        try:
            together.add(sizes[files], bounds)
        except RefusedError as error:
            refused[files] = str(error)
    if not rows:
        return refused
    whole = [files for files in states if files not in refused]
    faults = _check_rows([files for files in whole if states[files] not in _GOOD], bounds)
    _GOOD.update(states[files] for files in whole if files not in faults)
    return refused | faults


def _size_of(files: JobFiles, bounds: Bounds) -> int:
    """Check the names of a run's files, and return the bytes of all.

    Raises:
        RefusedError: a file cannot be used.
    """
    if not (files.run or files.packed):
        raise RefusedError("a table's name is JOB-IDENTITY.parquet, of letters, digits and . _ + -")
    total = 0
    for table, path in zip(TABLES, files.paths, strict=True):
        if path.exists() or path.is_symlink():
            total += check_name(path, files.folder, bounds)
        elif table not in ADDED:  # of an earlier version that had it not, perhaps: its footers say so
            raise _absent(files, table)
    return total


def _absent(files: JobFiles, table: str) -> RefusedError:
    of = "a packed set" if files.packed else "a run"
    path = files.path(table).relative_to(files.folder)
    return RefusedError(f"{path} is absent: the tables of {of} belong together")


def _check_footers(runs: Sequence[JobFiles], bounds: Bounds) -> dict[JobFiles, str]:
    """Return the first fault of the footers of runs, by run."""
    tables = {files: [table for table in TABLES if files.path(table).exists()] for files in runs}
    found = iter(apart.faults([(table, files.path(table)) for files in runs for table in tables[files]], bounds))
    by_run = {files: {table: next(found) for table in tables[files]} for files in runs}
    return {files: fault for files, of_run in by_run.items() if (fault := _of_footers(files, of_run))}


def _of_footers(files: JobFiles, of_run: Mapping[str, apart.Fault]) -> str:
    if fault := next((fault for fault, _ in of_run.values() if fault), ""):
        return fault
    versions = {version for _, version in of_run.values()}
    if len(versions) > 1:
        return f"its tables have different schema versions: {', '.join(map(str, sorted(versions)))}"
    lacking = [table for table in TABLES if table not in of_run and ADDED[table] <= max(versions)]
    return str(_absent(files, lacking[0])) if lacking else ""


def _check_rows(runs: Sequence[JobFiles], bounds: Bounds) -> dict[JobFiles, str]:
    """Return why the rows of runs are not taken, by run. All are read at once; where that fails, half of them each."""
    if not runs:
        return {}
    try:
        with connect() as connection:
            return _faults(connection, runs, bounds)
    except (duckdb.Error, UnicodeDecodeError) as error:
        if len(runs) == 1:
            return {runs[0]: f"its tables cannot be read ({' '.join(str(error).split())[:150]})"}
    middle = len(runs) // 2
    return _check_rows(runs[:middle], bounds) | _check_rows(runs[middle:], bounds)


def _faults(connection: duckdb.DuckDBPyConnection, runs: Sequence[JobFiles], bounds: Bounds) -> dict[JobFiles, str]:
    faults: dict[JobFiles, str] = {}
    for table in TABLES:
        found = connection.execute(_of_rows(table, runs, bounds)).fetchall()
        of_files = {place: fault for place, fault, _ in found if fault}
        if table == "jobs":
            of_files |= dict.fromkeys(set(range(len(runs))) - {place for place, *_ in found}, "it has no row")
        if any(more for *_, more in found):
            for place, fault in connection.execute(_of_twice(table, runs)).fetchall():
                of_files.setdefault(place, fault)
        for place, fault in sorted(of_files.items()):
            faults.setdefault(runs[place], f"{table}: {fault}")
    return faults


def _of_rows(table: str, runs: Sequence[JobFiles], bounds: Bounds) -> str:
    """Return the query for the place of each file, its first fault, and whether it perhaps has rows twice.

    All is asked in one question, because reading the rows is a large part of it. Equal keys have equal hashes.
    """
    cases = "\n".join(f"WHEN {condition.sql} THEN {condition.sentence}" for condition in conditions(table, bounds))
    columns = ", ".join(["*", "file_index", *lengths(table)])  # once, as both the conditions and the size ask for them
    return f"""
        SELECT file_index, coalesce(
            min(fault),
            CASE WHEN sum(size) > {bounds.unpacked} THEN 'its texts are longer than {bounds.unpacked} bytes in all' END,
            'it speaks of ' || left(min(stranger), 150) || ', which is no {
        "case of this run" if table in _OF_CASES else "case of a job in this set"
    }'
        ), count(*) > count(DISTINCT key)
        FROM (
            SELECT file_index, CASE {cases} END AS fault, {size_of_row(table)} AS size,
                   {_stranger(table, runs)} AS stranger, hash({_KEYS[table]}, file_index) AS key
            FROM (SELECT {columns} FROM {source_of(table, runs)})
        ) GROUP BY file_index
    """


def _stranger(table: str, runs: Sequence[JobFiles]) -> str:
    """Return the expression for the case of a row that is of no case, or of no job, in the same files."""
    if table == "jobs" or (table == "cases" and not any(files.packed for files in runs)):
        return "NULL::VARCHAR"  # of one run the names of the files make sure of it
    key, of = ('(file_index, run, "case")', "cases") if table in _OF_CASES else ("(file_index, run)", "jobs")
    return f'CASE WHEN NOT ({key} IN (SELECT {key} FROM {source_of(of, runs)})) THEN "case" END'


def _of_twice(table: str, runs: Sequence[JobFiles]) -> str:
    """Return the query for rows that occur twice, by the place of their file."""
    of = "run" if table == "jobs" else '"case"'
    return f"""
        SELECT file_index, 'it speaks of ' || left(first({of}), 150) || ' twice' FROM {source_of(table, runs)}
        GROUP BY file_index, {_KEYS[table]} HAVING count(*) > 1
    """


_RUN_OF_FILE = r"regexp_extract(filename, '-([0-9a-f]{16})\.parquet$', 1)"
_JOB_OF_FILE = r"regexp_extract(filename, '/([^/]*)-[0-9a-f]{16}\.parquet$', 1)"


@dataclass(frozen=True)
class Condition:
    """A condition that no row of an honest file meets, and an expression of SQL that says so."""

    sql: str
    sentence: str


def conditions(table: str, bounds: Bounds) -> list[Condition]:
    """Return the conditions of a table, in the order in which they are looked at."""
    of_table = {"jobs": _of_jobs, "cases": _of_cases, "outputs": _of_outputs, "samples": _of_samples}[table]
    run = Condition(f"{_RUN_OF_FILE} NOT IN ('', run)", "'it is of another run than its name says'")
    return [*_of_types(table, bounds), run, *of_table(), Condition(controls(table, _joined), f"'{WITH_CONTROL}'")]


def controls(table: str, joined: Callable[[str], str]) -> str:
    """Return the condition that a row has a control character; ``joined`` names the texts of a list as one text."""
    lists = map(joined, _lists(table))
    return " OR ".join(f"regexp_matches({text}, '{CONTROL}')" for text in (*_FREE[table], *lists))


def lengths(table: str) -> list[str]:
    """Return columns that conditions need and the table lacks: the texts of each list and map as one text.

    To join texts takes less than to ask for each.
    """
    return [f"coalesce(array_to_string({part}, ''), '') AS {_joined(part)}" for part in _lists(table)]


def size_of_row(table: str) -> str:
    """Return the bytes of the texts of a row, as SQL."""
    sizes = []
    for column in SCHEMAS[table]:
        if pa.types.is_string(column.type):
            sizes.append(f'strlen("{column.name}")')
        elif pa.types.is_binary(column.type):
            sizes.append(f'octet_length("{column.name}")')
    return " + ".join([*sizes, *map(_length, _lists(table))])


def _lists(table: str) -> list[str]:
    """Return the lists of texts in all columns, as SQL."""
    return [part for column in SCHEMAS[table] for part in _texts(column)]


def _texts(column: pa.Field) -> list[str]:
    """Return the lists of texts in a column, as SQL."""
    if column.type == pa.list_(pa.string()):
        return [f'"{column.name}"']
    if not pa.types.is_map(column.type):
        return []
    parts = ("map_keys", "map_values") if pa.types.is_string(column.type.item_type) else ("map_keys",)
    return [f'{part}("{column.name}")' for part in parts]


def _joined(part: str) -> str:
    return '"texts of {}"'.format(part.replace('"', ""))


def _length(part: str) -> str:
    return f"strlen({_joined(part)})"


def _of_types(table: str, bounds: Bounds) -> Iterator[Condition]:
    """Yield what holds of every column by its type: no null where none may be, no long text, no long list."""
    long = f"'a text is longer than {bounds.text} characters'"
    for column in SCHEMAS[table]:
        name = f'"{column.name}"'
        if not column.nullable:
            yield Condition(f"{name} IS NULL", f"'{column.name} is null'")
        if pa.types.is_string(column.type):
            yield Condition(f"length({name}) > {bounds.text}", long)
        if not pa.types.is_nested(column.type):
            continue
        texts = [name]
        if pa.types.is_map(column.type):
            texts = [f"map_keys({name})", f"map_values({name})"]
        yield Condition(f"len({texts[0]}) > {bounds.properties}", f"'{column.name} has more than {bounds.properties}'")
        yield Condition(f"list_count({texts[-1]}) < len({texts[-1]})", f"'{column.name} has a null'")
        for part in _texts(column):
            longer = f"len(list_filter({part}, lambda text: length(text) > {bounds.text})) > 0"
            yield Condition(f"{_length(part)} > {bounds.text} AND {longer}", long)


def _of_facts(columns: dict[str, str]) -> Iterator[Condition]:
    for column, fact in columns.items():
        sentence = f"'the column {column} differs from the fact {fact}'"
        yield Condition(f"\"{column}\" <> coalesce(facts['{fact}'], '')", sentence)


def _of_jobs() -> Iterator[Condition]:
    versions = f"schema_version NOT BETWEEN {OLDEST} AND {VERSION}"
    yield Condition(versions, "'it has the schema version ' || schema_version")
    yield Condition(f"{_JOB_OF_FILE} NOT IN ('', job)", "'it is of another job than its name says'")
    named = f"regexp_full_match(run, '{RUN_NAME}') AND regexp_full_match(job, '{JOB_NAME}')"
    yield Condition(f"NOT ({named})", "'the name of its job or of its run is none'")
    yield from _of_facts(FACTS_OF_JOB)
    yield Condition("NOT isfinite(seconds) OR seconds < 0", "'its seconds are ' || seconds")
    started = "facts['started']"
    began = f"'it began ''' || left({started}, 30) || ''' by the clock of its machine, which is wrong'"
    yield Condition(f"{started} > '' AND {started} < '{FIRST}'", began)
    yield Condition("started IS NOT NULL AND coalesce(facts['started'], '') = ''", "'nothing says when it started'")


def _of_cases() -> Iterator[Condition]:
    outcomes = ", ".join(f"'{outcome}'" for outcome in Outcome.__args__)  # type: ignore[attr-defined]
    yield Condition(f"outcome NOT IN ({outcomes})", "'there is no outcome ' || left(outcome, 60)")
    parts = "platform || target || toolchain || op || direction"
    whole = "concat(platform, '/', target, '/', toolchain, '/', op, '.', direction, '/', name)"
    # Nearly every id is the first, so the second is seldom put together.
    named = f'("case" <> {whole} AND "case" <> \'{BENCH}\' || {whole})'
    other = f"({named} OR contains({parts}, '/') OR contains(direction, '.'))"
    # Empty columns are right for a probe, and for an id that has other parts. A case's columns must not hide it.
    empty = f"""({parts} || name = '' AND (starts_with("case", '{PROBE}')
        OR NOT regexp_matches("case", '^([^/]*/){{3}}[^/]*\\.[^/]*/')))"""
    yield Condition(f"{other} AND NOT {empty}", "'the columns of ' || left(\"case\", 150) || ' differ from its id'")
    yield from _of_facts(FACTS_OF_CASE)
    time = "'the figure ''time'' of ' || left(\"case\", 150) || ' is ' || seconds"
    yield Condition("NOT isfinite(seconds) OR seconds < 0", time)
    wrong = f"""list_filter(map_entries(figures), lambda one:
        NOT isfinite(one.value) AND regexp_full_match(one.key, '{FINITE.pattern}'))"""
    yield Condition(
        f"{_not_all_finite('figures')} AND len({wrong}) > 0", _figure(f"({wrong})[1].key", f"({wrong})[1].value")
    )
    of_output = f"lambda name: contains(name, '.') AND split_part(name, '.', 1) NOT IN {_not_outputs()}"
    yield Condition(
        f"len(list_filter(map_keys(figures), {of_output})) > 0", "'a figure of an output stands in figures'"
    )


def _of_outputs() -> Iterator[Condition]:
    yield Condition(f"split_part(output, '.', 1) IN {_not_outputs()}", "'it has an output ' || left(output, 60)")
    for name in FIGURES:
        if FINITE.fullmatch(f"output.{name}"):
            yield Condition(f"NOT isfinite({name})", _figure(f"output || '.{name}'", name))
    known = ", ".join(f"'{name}'" for name in FIGURES if name not in LATER)
    yield Condition(
        f"len(list_filter(map_keys(others), lambda name: name IN ({known}))) > 0", "'a figure stands in others'"
    )
    wrong = f"""list_filter(map_entries(others), lambda one:
        NOT isfinite(one.value) AND regexp_full_match(output || '.' || one.key, '{FINITE.pattern}'))"""
    sentence = _figure(f"output || '.' || ({wrong})[1].key", f"({wrong})[1].value")
    yield Condition(f"{_not_all_finite('others')} AND len({wrong}) > 0", sentence)


def _of_samples() -> Iterator[Condition]:
    yield Condition("octet_length(bits) > 8 * 128", "'a sample has more than 128 elements'")


def _not_all_finite(figures: str) -> str:
    """Return a condition that is quick to see, and that few rows meet: the sum of finite numbers is seldom Inf."""
    return f"NOT isfinite(list_sum(map_values({figures})))"


def _figure(name: str, value: str) -> str:
    return f"'the figure ''' || left({name}, 60) || ''' of ' || left(\"case\", 150) || ' is ' || {value}"


def _not_outputs() -> str:
    return f"({', '.join(repr(name) for name in NOT_OUTPUTS)})"


def _state_of(files: JobFiles, bounds: Bounds) -> Known:
    """Return what changes when somebody writes one of the files; nothing if one cannot be looked at."""
    try:
        states = ((str(path), status.st_size, status.st_mtime_ns) for path in files.paths if (status := path.stat()))
        return bounds, tuple(states)
    except OSError:
        return bounds, ()


@contextmanager
def _alone(states: set[Known]) -> Iterator[None]:
    """Wait until no other thread looks at files with these states, and let no other look at them in the block."""
    with _CHANGED:
        _CHANGED.wait_for(lambda: _BUSY.isdisjoint(states))
        _BUSY.update(states)
    try:
        yield
    finally:
        with _CHANGED:
            _BUSY.difference_update(states)
            _CHANGED.notify_all()
