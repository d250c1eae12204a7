"""Read matrix.yaml, check it, and name the line of each fault."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kernel_matrix.base.collection import many_objects_that_stay
from kernel_matrix.config.checks import plan_faults, reference_faults
from kernel_matrix.config.document import Document
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.config.schema import model_faults
from kernel_matrix.config.suite import Listed, with_tests

MATRIX_FILE = "matrix.yaml"  # unless the option --matrix names another file


@dataclass(frozen=True)
class Checked:
    """A matrix.yaml without a fault, and the plan of its full tier, which the checks needed."""

    matrix: Matrix
    full: Plan


def load(path: Path) -> Matrix:
    """Read and check ``path``; see :func:`load_and_plan`."""
    return load_and_plan(path).matrix


def load_and_plan(path: Path, tests: Listed | None = None) -> Checked:
    """Read and check ``path``, and keep the plan that was made for the checks.

    ``tests`` are the known tests of the package's suite, for a matrix without operators.

    Raises:
        UserError: one line per fault, each ``FILE:LINE: where: what. What to do.``
    """
    document = Document(path)
    matrix = with_tests(_model(document), tests or Listed())
    if faults := list(reference_faults(matrix, path.parent)):  # a plan needs names that exist
        raise document.error(faults)
    with many_objects_that_stay():
        full = plan(matrix, "full")
        if faults := list(plan_faults(matrix, path.parent, full)):
            raise document.error(faults)
    return Checked(matrix, full)


def load_unchecked(path: Path) -> Matrix:
    """Read ``path`` without looking for the files that it names: some of them may have to be made first.

    Raises:
        UserError: the file is not in the form of a matrix.yaml; one line per fault.
    """
    return _model(Document(path))


def _model(document: Document) -> Matrix:
    try:
        return Matrix.model_validate(document.root)
    except ValidationError as error:
        raise document.error(model_faults(error)) from None
