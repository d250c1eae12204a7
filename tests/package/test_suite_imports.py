"""The suite uses nothing of the harness that a stranger cannot use."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from loops import at_least

import kernel_matrix.kit

SUITE = Path(__file__).resolve().parents[1] / "mhc"


def used(text: str) -> list[str]:
    """Return what a module uses of the harness that is not public."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "kernel_matrix":
            public = kernel_matrix.kit.__all__ if node.module == "kernel_matrix.kit" else ()
            found += [f"{node.module}.{one.name}" for one in node.names if one.name not in public]
        elif isinstance(node, ast.Import):
            found += [one.name for one in node.names if one.name.partition(".")[0] == "kernel_matrix"]
    return found


def test_the_suite_imports_the_public_names_of_the_kit_alone():
    for path in at_least(5, SUITE.glob("*.py")):
        assert used(path.read_text(encoding="utf-8")) == [], path.name


@pytest.mark.parametrize(
    "text",
    [
        "import kernel_matrix.job",
        "from kernel_matrix.kit import running",
        "from kernel_matrix.kit.running import Running",
    ],
)
def test_anything_else_of_the_harness_is_seen(text):
    assert used(text)
    assert used("from kernel_matrix.kit import hold") == []
