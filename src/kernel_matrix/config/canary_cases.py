"""Choose the cases of a job that carry canaries: faults put into a result, to see that the comparison finds them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256

from kernel_matrix.config.model import Scalar
from kernel_matrix.config.plan import Case, Cell

Group = tuple[Cell, Scalar | None]  # a cell and a dtype: each owes a case with canaries


def group_of(case: Case) -> Group:
    """Return the group of a case: its target, toolchain, operator and direction, and its dtype if it has one."""
    return case.cell, case.axes.get("dtype")


def canary_cases(cases: Iterable[Case]) -> set[str]:
    """Return the ids of the cases that carry canaries: one of every target, operator, direction and dtype.

    ``cases`` are those that the job is to run or to emulate. Of a group the case is taken whose name has the least
    sha256. A case that is expected to fail, that the full tier alone has (a report of the quick tier does not count its
    result), or that is not apt by matrix.yaml's ``canary``, is taken only if its group has no other.
    """
    groups: dict[Group, list[Case]] = defaultdict(list)
    for case in cases:
        groups[group_of(case)].append(case)
    return {min(group, key=_order).id for group in groups.values()}


def _order(case: Case) -> tuple[bool, bool, bool, str]:
    is_not_apt = not case.owed.apt_for_canaries
    return bool(case.expectations), not case.is_quick, is_not_apt, sha256(case.name.encode()).hexdigest()
