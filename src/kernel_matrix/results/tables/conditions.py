"""Refuse rows of a table by conditions in SQL, each with the sentence that names the row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from kernel_matrix.results.limits import NOT_OUTPUTS
from kernel_matrix.results.record import BENCH, PROBE, Outcome
from kernel_matrix.results.tables.schema import FIGURES, SCHEMAS, VERSION
from kernel_matrix.results.validation import FINITE, Bounds

_RUN_OF_FILE = r"regexp_extract(filename, '-([0-9a-f]{16})\.parquet$', 1)"
_JOB_OF_FILE = r"regexp_extract(filename, '/([^/]*)-[0-9a-f]{16}\.parquet$', 1)"
# The facts that columns of their own repeat, by the column.
_OF_JOB = {
    **{name: name for name in ("job", "platform", "toolchain", "device", "driver", "executor", "commit")},
    "lock_sha256": "lock.sha256",
}
_OF_CASE = {"inputs_sha256": "inputs.sha256", "artifact_kind": "artifact.kind"}


@dataclass(frozen=True)
class Condition:
    """A condition that no row of an honest file meets, and an expression of SQL that says so."""

    sql: str
    sentence: str


def conditions(table: str, bounds: Bounds) -> list[Condition]:
    """Return the conditions of a table, in the order in which they are looked at."""
    of_table = {"jobs": _of_jobs, "cases": _of_cases, "outputs": _of_outputs, "samples": _of_samples}[table]
    run = Condition(f"run <> {_RUN_OF_FILE}", "'it is of another run than its name says'")
    return [*_of_types(table, bounds), run, *of_table()]


def lengths(table: str) -> list[str]:
    """Return columns that conditions ask for beside those of the table: the bytes of the texts of lists and maps.

    To join texts takes less than to ask for each.
    """
    return [
        f"coalesce(strlen(array_to_string({part}, '')), 0) AS {_length(part)}"
        for column in SCHEMAS[table]
        for part in _texts(column)
    ]


def size_of_row(table: str) -> str:
    """Return the bytes of the texts of a row, as SQL."""
    sizes = []
    for column in SCHEMAS[table]:
        if pa.types.is_string(column.type):
            sizes.append(f'strlen("{column.name}")')
        elif pa.types.is_binary(column.type):
            sizes.append(f'octet_length("{column.name}")')
        sizes += [_length(part) for part in _texts(column)]
    return " + ".join(sizes)


def _texts(column: pa.Field) -> list[str]:
    """Return the lists of texts in a column, as SQL."""
    if column.type == pa.list_(pa.string()):
        return [f'"{column.name}"']
    if not pa.types.is_map(column.type):
        return []
    parts = ("map_keys", "map_values") if pa.types.is_string(column.type.item_type) else ("map_keys",)
    return [f'{part}("{column.name}")' for part in parts]


def _length(part: str) -> str:
    return '"bytes of {}"'.format(part.replace('"', ""))


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
    yield Condition(f"schema_version <> {VERSION}", "'it has the schema version ' || schema_version")
    yield Condition(f"job <> {_JOB_OF_FILE}", "'it is of another job than its name says'")
    yield from _of_facts(_OF_JOB)
    yield Condition("NOT isfinite(seconds)", "'its seconds are ' || seconds")
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
    yield from _of_facts(_OF_CASE)
    yield Condition("NOT isfinite(seconds)", "'the figure ''time'' of ' || left(\"case\", 150) || ' is ' || seconds")
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
    known = ", ".join(f"'{name}'" for name in FIGURES)
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
