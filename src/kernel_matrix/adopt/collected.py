"""Decide whether pytest finds a test in a file, without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernel_matrix.base.syntax import parsed

# Rules by which pytest takes what has other names, and the files that may have them.
_RULES = re.compile(rb"python_functions|python_classes|doctest-modules|pytest_pycollect_makeitem|pytest_collect_file")
_FILES = ("pyproject.toml", "pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg")
_ANY = re.compile(rb"^\s*(async\s+)?def\s|^\s*>>> ", re.MULTILINE)
_NAMED = re.compile(rb"^\s*(async\s+)?def\s+\w*test|^\s*class\s+\w*test", re.MULTILINE | re.IGNORECASE)
_NAMES_OF_A_MODULE = {"globals", "setattr", "exec", "vars", "locals"}  # who calls these may make tests of any name


def has_own_rules(root: Path, conftests: Iterable[Path]) -> bool:
    """Return whether the settings of a repository make tests of what has other names than pytest's own."""
    return any(_RULES.search(content_of(path)) for path in (*(root / name for name in _FILES), *conftests))


def has_tests(path: Path, *, own_rules: bool = False) -> bool:
    """Return whether pytest finds a test in a file; with rules of the repository's own, whether it may."""
    content = content_of(path)
    if own_rules or not content:
        return not content or _ANY.search(content) is not None
    try:
        tree = parsed(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _NAMED.search(content) is not None
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    names_things = any(isinstance(function, ast.Name) and function.id in _NAMES_OF_A_MODULE for function in calls)
    return names_things or any(map(_is_test, _statements(tree.body)))


def content_of(path: Path) -> bytes:
    """Return the content of a file; nothing if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a module or of a class, also those below conditions, loops and the like."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            yield from _statements(ast.iter_child_nodes(node))


def _is_test(node: ast.AST) -> bool:
    """Return whether a statement gives a module or a class a test."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return node.name.startswith("test")
    if isinstance(node, ast.ClassDef):
        bases = (ast.unparse(base).rpartition(".")[2] for base in node.bases)
        return any(map(_is_suite, bases)) or any(map(_is_test, _statements(node.body)))
    if isinstance(node, ast.ImportFrom):
        names = [alias.asname or alias.name for alias in node.names]
        return any(name == "*" or name.startswith("test_") or _is_suite(name) for name in names)
    if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Call, ast.Name, ast.Attribute, ast.Lambda)):
        return any(isinstance(target, ast.Name) and target.id.startswith("test_") for target in node.targets)
    return False


def _is_suite(name: str) -> bool:
    """Return whether a class from elsewhere may have tests by its name: ``TestCase`` and its like have none."""
    return re.search(r"^Test[A-Z]|Tests?$", name) is not None and not name.endswith("TestCase")
