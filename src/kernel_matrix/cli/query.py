"""Ask the tables of results in SQL: print the answer to a SELECT."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.numbers import above_zero
from kernel_matrix.cli.interruption import time_limit


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options: the query, which results, and how the answer is printed."""
    parser.add_argument(
        "query", nargs="*", help='the query, such as "SELECT * FROM cells", then folders of results (build/results)'
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--csv", action="store_true", help="print CSV")
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--files", action="store_true", help="print the SQL of the views, for another DuckDB")
    parser.add_argument("--seconds", type=above_zero, default=60, help="the time limit of the query (60)")


def main(options: argparse.Namespace) -> int:
    """Print the answer, and name the files that were left out."""
    from kernel_matrix.store import query  # DuckDB and pyarrow take long to import

    if not options.files and not options.query:
        raise UserError('Give a query, such as `kernel-matrix query "SELECT * FROM cells"`. docs/queries.md has more.')
    text, *rest = ["", *options.query] if options.files else options.query
    folders = rest or [str(Path("build") / "results")]
    if options.files:
        print(query.statements([Path(folder) for folder in folders]), end="")
        return 0
    with time_limit(options.seconds, f"The query has taken {options.seconds:g} s. --seconds gives it more time."):
        answer = query.ask(text, folders)
        if options.csv or options.json:
            lines = (query.in_csv if options.csv else query.in_json)(answer)
        else:
            lines = "\n".join([*query.in_lines(answer), ""])
    print(lines, end="")
    for problem in answer.problems:
        print(f"kernel-matrix: {' '.join(problem.split())}", file=sys.stderr)
    return 2 if answer.problems else 0
