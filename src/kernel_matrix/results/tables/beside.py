"""JUnit file of a job -> its tables in the same folder."""

from __future__ import annotations

from pathlib import Path

from kernel_matrix.results import junit, samples
from kernel_matrix.results.validation import Bounds


def write_beside(result: Path) -> None:
    """Write the tables of a JUnit file of one job, with its samples. They replace those of the job's earlier runs.

    Raises:
        ValueError: the file is not that of one job, or this Python cannot import what writes tables.
        OSError: a file cannot be written.
    """
    try:
        from kernel_matrix.results.tables.write import replace  # pyarrow takes long to import
    except ImportError as error:  # of a toolchain's own interpreter, whose libraries may not fit it
        raise ValueError(f"this Python cannot import pyarrow ({error})") from None
    records = junit.read(result)
    beside = samples.beside(result)
    if beside.exists():
        records = samples.read(beside, records, Bounds())
    if records:
        replace(result.parent, records)
