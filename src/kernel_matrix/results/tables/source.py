"""DuckDB as it is used here: in memory, with little of it, and with nothing written to the disk."""

from __future__ import annotations

import re
from collections.abc import Sequence

import duckdb

_MEMORY = "2GB"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a database in memory that cannot load extensions and writes no temporary files."""
    return duckdb.connect(
        ":memory:",
        config={
            "memory_limit": _MEMORY,
            "temp_directory": "",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "python_enable_replacements": "false",  # else the name of a Python variable is the name of a table
        },
    )


def literals(names: Sequence[str], *, is_glob: bool = False) -> list[str]:
    """Return texts as SQL writes them; of a glob, its special characters stand for themselves."""
    return [_quoted(re.sub(r"([\[*?])", r"[\1]", name) if is_glob else name) for name in names]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
