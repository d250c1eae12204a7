"""The four files of a run -> Records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kernel_matrix.results.record import Record, Sample
from kernel_matrix.results.tables import names
from kernel_matrix.results.tables.identity import identity
from kernel_matrix.results.tables.names import JobFiles
from kernel_matrix.results.tables.schema import FIGURES
from kernel_matrix.results.validation import RefusedError

_Columns = Mapping[str, list[Any]]
# The columns of a case that are not repeated in others.
_OF_CASE = (
    *("case", "outcome", "action", "stage", "message", "detail"),
    *("seconds", "attempts", "facts", "figures"),
)


def read(files: JobFiles) -> list[Record]:
    """Return the records of a run whose files have been checked (``checks.check``).

    Raises:
        RefusedError: their content has another identity than their name.
    """
    [facts] = _columns(files, "jobs")["facts"]
    metrics, samples = _metrics(_columns(files, "outputs")), _samples(_columns(files, "samples"))
    job = dict(facts)
    records = list(_records(_columns(files, "cases"), job, files.run, metrics, samples))
    if (content := identity(job, records)) != files.run:
        raise RefusedError(f"its content is that of the run {content}, and not of {files.run}: a file was changed")
    return records


def facts_of(path: Path) -> dict[str, str]:
    """Return the facts of a job from the file that its run has returned (``write.write``)."""
    if names.is_journal(path):
        with path.open(encoding="utf-8") as file:
            return dict(json.loads(file.readline())["facts"])
    return dict(pq.ParquetFile(path).read(["facts"]).column("facts").to_pylist()[0])


def has_samples(files: JobFiles) -> bool:
    """Return whether a run has samples of some output."""
    return bool(pq.ParquetFile(files.path("samples")).metadata.num_rows)


def _records(
    cases: _Columns,
    job: Mapping[str, str],
    run: str,
    metrics: Mapping[str, dict[str, float]],
    samples: Mapping[str, dict[str, Sample]],
) -> Iterable[Record]:
    for row in zip(*(cases[name] for name in _OF_CASE), strict=True):
        fields = dict(zip(_OF_CASE, row, strict=True))
        case, figures = fields["case"], dict(fields.pop("figures"))
        fields |= {"attempts": tuple(fields["attempts"]), "facts": dict(fields["facts"])}
        figures |= metrics.get(case, {})
        yield Record(**fields, metrics=figures, job=job, samples=samples.get(case, {}), run=run)


def _metrics(outputs: _Columns) -> dict[str, dict[str, float]]:
    """Return the metrics of the outputs by case."""
    by_case: dict[str, dict[str, float]] = {}
    columns = [outputs[name] for name in FIGURES]
    for case, output, others, *values in zip(
        outputs["case"], outputs["output"], outputs["others"], *columns, strict=True
    ):
        metrics = by_case.setdefault(case, {})
        for name, value in (*zip(FIGURES, values, strict=True), *others):
            if value is not None:
                metrics[f"{output}.{name}"] = value
    return by_case


def _samples(rows: _Columns) -> dict[str, dict[str, Sample]]:
    """Return the samples by case and output."""
    by_case: dict[str, dict[str, Sample]] = {}
    names = ("case", "output", "dtype", "shape", "sha256", "bits")
    for case, output, dtype, shape, sha256, bits in zip(*(rows[name] for name in names), strict=True):
        by_case.setdefault(case, {})[output] = Sample(dtype, tuple(shape), sha256, bits)
    return by_case


def _columns(files: JobFiles, table: str) -> _Columns:
    # Not read_table: it takes a folder called NAME=VALUE for a column.
    try:
        content = pq.ParquetFile(files.path(table)).read()
        return {name: content.column(name).to_pylist() for name in content.column_names}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"{table}/{files.path(table).name} cannot be read ({error})") from None
