"""The faults of the section ``resources``: its form, names that nothing has, and entries that hold for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from kernel_matrix.config.checks.rules import where
from kernel_matrix.config.document import Fault
from kernel_matrix.config.model import Matrix, has_values
from kernel_matrix.config.plan import Plan
from kernel_matrix.config.rule_state import facts_of
from kernel_matrix.config.schema import model_faults
from kernel_matrix.resources.section import Resource


def faults(matrix: Matrix, root: Path, full: Plan) -> Iterator[Fault]:
    """Yield the faults of all entries."""
    for index, given in enumerate(matrix.resources):
        try:
            entry = Resource.model_validate(given)
        except ValidationError as error:
            yield from ((("resources", index, *place), text) for place, text in model_faults(error))
            continue
        unknown = list(where(matrix, ("resources", index, "where"), entry.where))
        yield from unknown
        if not unknown and not any(has_values(facts_of(case), entry.where) for case in full.cases):
            yield ("resources", index, "where"), "no case has these values together. Correct them, or take it out."
        if entry.last and not any((root / entry.last).rglob("cases/*.parquet")):
            text = f"the folder '{entry.last}' has no tables of results. Correct the path."
            yield ("resources", index, "last"), text
