"""The files of a run -> the facts of its job, and the samples of its outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kernel_matrix.results.record import Sample
from kernel_matrix.results.tables import names
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.validation import RefusedError


def facts_of(path: Path) -> dict[str, str]:
    """Return the facts of a job from the file that its run has returned (``write.write``)."""
    if names.is_journal(path):
        with path.open(encoding="utf-8") as file:
            return dict(json.loads(file.readline())["facts"])
    return dict(pq.ParquetFile(path).read(["facts"]).column("facts").to_pylist()[0])


def has_samples(files: JobFiles) -> bool:
    """Return whether a run has samples of some output."""
    return bool(pq.ParquetFile(files.path("samples")).metadata.num_rows)


def samples_of(files: JobFiles) -> dict[str, dict[str, Sample]]:
    """Return the samples of a run by case and output.

    Raises:
        RefusedError: their file cannot be read.
    """
    path = files.path("samples")
    try:  # not read_table: it takes a folder called NAME=VALUE for a column
        content = pq.ParquetFile(path).read()
        columns = [content.column(name).to_pylist() for name in ("case", "output", "dtype", "shape", "sha256", "bits")]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"samples/{path.name} cannot be read ({error})") from None
    by_case: dict[str, dict[str, Sample]] = {}
    for case, output, dtype, shape, sha256, bits in zip(*columns, strict=True):
        by_case.setdefault(case, {})[output] = Sample(dtype, tuple(shape), sha256, bits)
    return by_case
