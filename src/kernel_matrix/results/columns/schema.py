"""The Arrow schemas of the tables that results are held in, and the figures that have a column of their own."""

from __future__ import annotations

import pyarrow as pa

from kernel_matrix.results.limits import SOURCES
from kernel_matrix.results.tables import schema as tables

FIGURES = (*tables.FIGURES,)  # the figures of an output that have a column. Others are in the column `others`.
COMMON = ("elements", *SOURCES)  # the figures that all results of a case have in common
_FACTS = pa.map_(pa.string(), pa.string())
_NUMBERS = pa.map_(pa.string(), pa.float64())

JOBS = pa.schema([("suite", pa.int32()), ("run", pa.string()), ("facts", _FACTS)])
CASES = pa.schema(
    [
        ("suite", pa.int32()),  # the place of the suite in its file
        ("place", pa.int64()),  # the place of the record in its file
        ("case", pa.string()),
        ("outcome", pa.string()),
        ("action", pa.string()),
        ("stage", pa.string()),
        ("message", pa.string()),
        ("detail", pa.string()),
        ("seconds", pa.float64()),
        ("attempts", pa.list_(pa.string())),
        ("facts", _FACTS),
        ("figures", _NUMBERS),
    ]
)
OUTPUTS = pa.schema(
    [
        ("place", pa.int64()),  # that of the record
        ("row_place", pa.int32()),  # the place of the output in its record
        ("output", pa.string()),
        *((name, pa.float64()) for name in FIGURES),
        ("others", _NUMBERS),
    ]
)
