"""The checks of matrix.yaml that its model cannot make: one function per check, each yielding (place, text)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernel_matrix.config.checks import coverage, files, names, rules
from kernel_matrix.config.document import Fault
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Plan

_OF_FILES = (files.package, files.locks, files.containers, files.links, files.last_results)
_OF_NAMES = (
    names.directions,
    names.toolchains,
    names.platforms,
    names.ops,
    names.outputs,
    names.sums,
    names.budgets,
    names.groups,
    names.sizes,
    names.events,
    names.clusters,
    rules.places,
    rules.expectations,
)
_OF_THE_PLAN = (coverage.cases, coverage.chosen_cases, coverage.sentinels, coverage.resources)


def reference_faults(matrix: Matrix, root: Path) -> Iterator[Fault]:
    """Yield the files that do not exist, the names that name nothing, and what stands twice."""
    for check_files in _OF_FILES:
        yield from check_files(matrix, root)
    for check_names in _OF_NAMES:
        yield from check_names(matrix)


def plan_faults(matrix: Matrix, root: Path, full: Plan) -> Iterator[Fault]:
    """Yield the faults that only the plan of the full tier shows."""
    for check in _OF_THE_PLAN:
        yield from check(matrix, full)
    yield from rules.versions(matrix, root, full)
