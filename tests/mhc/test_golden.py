"""Every operator, in both directions, against its float64 golden, under the case's error budget."""

from __future__ import annotations

from typing import Any

import pytest

from compiled import compile_ahead
from constants import OPS
from kernel_matrix.job.case import RunningCase


def every_operator(test: Any) -> Any:
    """Mark the test for all operators in both directions."""
    for op in OPS:
        for direction in ("forward", "backward"):
            test = pytest.mark.op(op, direction)(test)
    return test


@every_operator
def test_matches_the_golden(case: RunningCase) -> None:
    if case.action == "compile":
        compile_ahead(case)
    else:
        # PyTorch takes 1.6 s to import. A job whose cases are all compiled does not need it in this process.
        from conformance import conform
        from under_test import UnderTest

        conform(case, UnderTest(case))
