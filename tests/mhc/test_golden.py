"""Every operator, in both directions, against its float64 golden, under the case's error budget."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiled import compile_ahead
from kernel_matrix.job.case import RunningCase


def operators() -> Iterator[str]:
    """Yield the names in ``OPS`` of draws.py. The file is read and not imported, since it imports PyTorch."""
    for node in ast.parse(Path(__file__).with_name("draws.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "OPS" and isinstance(node.value, ast.Dict):
            yield from (ast.literal_eval(key) for key in node.value.keys if key is not None)


def every_operator(test: Any) -> Any:
    """Mark the test for all operators in both directions."""
    for op in operators():
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
        from tested import UnderTest

        conform(case, UnderTest(case))
