"""Ask the tables of results in SQL."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from kernel_matrix.base.errors import UserError
from kernel_matrix.results.tables import views
from kernel_matrix.results.tables.database import folders_of, opened

_WIDEST = 60  # characters of a column in the table for people
_NUMBERS = (int, float)


@dataclass(frozen=True)
class Answer:
    """The columns and rows of an answer, and a sentence for each run that was left out."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    problems: tuple[str, ...] = ()


def ask(query: str, folders: Sequence[str | Path]) -> Answer:
    """Return the answer to one SELECT over the tables of the folders.

    Raises:
        UserError: a folder or the query cannot be used, or the query does something else than select.
    """
    with opened(folders, rows=False) as database:
        try:
            statements = database.connection.extract_statements(query)
            if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
                raise UserError("The query must be one SELECT: nothing else can be done with results.")
            result = database.connection.execute(query)
            columns = tuple(str(column[0]) for column in result.description or ())
            return Answer(columns, tuple(result.fetchall()), database.problems)
        except (duckdb.Error, OSError, UnicodeDecodeError) as error:
            raise UserError(f"The query cannot be answered: {_in_short(error)}") from None


def statements(folders: Sequence[Path], dialect: str) -> str:
    """Return the SQL that makes the views over the folders in an engine.

    Raises:
        UserError: a folder does not exist, or has no tables.
    """
    places = [str(folder) for folder in folders_of(folders)]
    return "".join(f"{statement};\n\n" for statement in views.statements(views.sources(places, dialect), dialect))


def in_lines(answer: Answer) -> list[str]:
    """Return the answer as a table for people. Long texts are cut; ``--csv`` and ``--json`` have all of them."""
    cells = [[_shown(value) for value in row] for row in answer.rows]
    widths = [max(len(name), *(len(row[place]) for row in cells)) if cells else len(name)
              for place, name in enumerate(answer.columns)]  # fmt: skip
    right = [all(isinstance(row[place], _NUMBERS) or row[place] is None for row in answer.rows)
             for place in range(len(widths))]  # fmt: skip
    lines = [answer.columns, tuple("-" * width for width in widths), *cells]
    text = [
        "  ".join(
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    return [*text, f"({len(answer.rows)} row{'' if len(answer.rows) == 1 else 's'})"]


def in_csv(answer: Answer) -> str:
    """Return the answer as CSV."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_plain(value) for value in row] for row in answer.rows)
    return file.getvalue()


def in_json(answer: Answer) -> str:
    """Return the answer as a JSON list of objects. NaN and infinite numbers are texts: JSON has none."""
    rows = [{name: _plain(value) for name, value in zip(answer.columns, row, strict=True)} for row in answer.rows]
    return json.dumps(rows, indent=1, allow_nan=False) + "\n"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(_plain(value))
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | bool | None) else str(value)


def _in_short(error: Exception) -> str:
    """Return the first line of an error of the database, and its guess of what was meant."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    guesses = [line for line in lines[1:] if line.startswith(("Did you mean", "Candidate bindings"))]
    return ". ".join([*lines[:1], *guesses[:1]])[:600]
