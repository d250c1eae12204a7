"""A test that loops over what it loads asks how much that is: a loop over nothing passes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from common import ROOT
from loops import at_least

LOADS = ("glob", "rglob", "iterdir")
# What holds the number of things by itself: one thing is taken, or all are compared with what was written down.
COUNTS = ("at_least", "next", "len", "any", "max", "min")


def loads_of_the_repository(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls that list a folder of the repository: one that a constant in capitals names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOADS:
            names = {one.id for one in ast.walk(node.func.value) if isinstance(one, ast.Name)}
            if any(name.isupper() for name in names):
                yield node


def unguarded(text: str) -> list[int]:
    """Return the lines of loops over a folder of the repository that do not ask how many files it has."""
    tree = ast.parse(text)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}

    def is_guarded(node: ast.AST) -> bool:
        while (node := parents.get(node)) is not None:  # type: ignore[assignment]
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COUNTS:
                return True
            if isinstance(node, ast.Compare | ast.Subscript):
                return True
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.List | ast.Tuple):
                return True
            if isinstance(node, ast.stmt):
                return False
        return False

    return [node.lineno for node in loads_of_the_repository(tree) if not is_guarded(node)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("for path in ROOT.glob('*'):\n    assert path", [1]),
        ("for path in sorted((ROOT / 'a').rglob('*')):\n    assert path", [1]),
        ("found = [path for path in FOLDER.iterdir() if path.suffix]", [1]),
        ("for path in at_least(3, ROOT.glob('*')):\n    assert path", []),
        ("[path] = ROOT.glob('*')", []),
        ("first = next(ROOT.glob('*'))", []),
        ("assert {path.name for path in ROOT.glob('*')} == {'a'}", []),
        ("for path in tmp_path.glob('*'):\n    assert path", []),
    ],
)
def test_a_loop_that_does_not_ask_is_found(text, lines):
    assert unguarded(text) == lines


def test_every_loop_over_files_of_the_repository_asks_how_many_they_are():
    files = at_least(150, (path for path in (ROOT / "tests").rglob("test_*.py")))
    found = [f"{path.relative_to(ROOT)}:{line}" for path in files for line in unguarded(Path(path).read_text())]
    assert "\n".join(found) == "", "use at_least of tests/support/loops.py"
