"""The checks of a project."""

from __future__ import annotations

from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check


def checks_of(project: Project) -> tuple[Check, ...]:
    """Return the checks: those in the build folder, then the ones that the package keeps.

    Raises:
        UserError: a file cannot be used.
    """
    kept = project.matrix.package.checks
    return checks.read(project.build / checks.FOLDER, *([project.root / kept] if kept else ()))
