"""Run the suite's test of a case, in this process."""

from __future__ import annotations

import test_operators
from kernel_matrix.job.case import RunningCase
from kernel_matrix.kit.conform import conform as conform_to
from kernel_matrix.kit.description import Operator


def described(op: str, direction: str) -> Operator:
    """Return the suite's description of an operator in one direction."""
    found: Operator = getattr(test_operators, f"test_{op}_{direction}").described
    return found


def conform(case: RunningCase) -> None:
    """Make every check of the case's operator."""
    conform_to(case, described(case.op, case.direction))
