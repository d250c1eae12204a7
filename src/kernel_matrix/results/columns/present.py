"""Tables and checkout -> the present that results must agree with."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from kernel_matrix.config.load import MATRIX_FILE
from kernel_matrix.config.model import Matrix
from kernel_matrix.results import present
from kernel_matrix.results.columns.records import Jobs
from kernel_matrix.results.columns.sql import Connection
from kernel_matrix.results.present import Present
from kernel_matrix.results.record import Record


def present_of(
    connection: Connection,
    matrix: Matrix,
    root: Path,
    files: Iterable[Path] = (),
    now: datetime | None = None,
    name: str = MATRIX_FILE,
) -> Present:
    """Return the present state of the checkout for the jobs of the present sources, one record for each."""
    records = [Record("", "pass", job=facts) for facts in Jobs(connection).facts.values()]
    return present.present(matrix, root, records, files, now, name)
