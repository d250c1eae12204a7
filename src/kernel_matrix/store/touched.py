"""The runs that a question about a part of the plan touches: of many results only these are read."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import duckdb
import pyarrow as pa

from kernel_matrix.store import checks
from kernel_matrix.store.database import connect, enter, rows
from kernel_matrix.store.names import JobFiles
from kernel_matrix.store.reading import source_of
from kernel_matrix.store.records import OF_CASES
from kernel_matrix.store.validation import Bounds

MANY = 20_000  # results. Fewer are read as a whole, and the audit counts all of them


def touched(runs: Sequence[JobFiles], cases: Collection[str], bounds: Bounds) -> tuple[Sequence[JobFiles], int]:
    """Return the runs with one of the cases, a probe or a benchmark, and the number of results of all other runs.

    Only the ids of cases are read. All runs are returned where there are not many results, or where a file cannot be
    read; a run that cannot be used is returned too, so that the caller says why.
    """
    refused = checks.check(runs, bounds, rows=False)
    good = [files for files in runs if files not in refused]
    if not good:
        return runs, 0
    question = f"""
        SELECT file_index, count(*), bool_or("case" IN (FROM asked) OR NOT ({OF_CASES}))
        FROM {source_of("cases", good)} GROUP BY file_index
    """
    try:
        with connect() as connection:
            enter(connection, "asked", pa.schema({"case": pa.string()}), {"case": [*cases]})
            found = rows(connection, question)
    except (duckdb.Error, UnicodeDecodeError):
        return runs, 0
    if sum(results for _, results, _ in found) <= MANY:
        return runs, 0
    others = {good[place]: results for place, results, is_touched in found if not is_touched}
    return [files for files in runs if files not in others], sum(others.values())
