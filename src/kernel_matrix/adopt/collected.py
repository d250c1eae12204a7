"""Decide whether pytest finds a test in a file, without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernel_matrix.base.syntax import parsed

# Settings by which pytest takes more than its own names, and what is a test then.
_RULES = {
    re.compile(rb"python_functions|python_classes|pytest_pycollect_makeitem|pytest_collect_file"): re.compile(
        rb"^\s*(async\s+)?def\s", re.MULTILINE
    ),
    re.compile(rb"doctest-modules"): re.compile(rb"^\s*>>> ", re.MULTILINE),
}
_FILES = ("pyproject.toml", "pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg")
_NAMED = re.compile(rb"^\s*(async\s+)?def\s+\w*test|^\s*class\s+\w*test", re.MULTILINE | re.IGNORECASE)
# Who calls these, anywhere or at the top, may make tests of any name.
_ANYWHERE, _AT_THE_TOP = {"globals"}, {"setattr", "exec", "vars", "locals"}


def own_rules(root: Path, conftests: Iterable[Path]) -> list[re.Pattern[bytes]]:
    """Return what is a test by the settings of a repository, beside what has pytest's own names."""
    texts = [content_of(path) for path in (*(root / name for name in _FILES), *conftests)]
    return [is_test for rule, is_test in _RULES.items() if any(map(rule.search, texts))]


def has_tests(path: Path, rules: Iterable[re.Pattern[bytes]] = ()) -> bool:
    """Return whether pytest finds a test in a file; ``rules`` are what more is a test in its repository."""
    content = content_of(path)
    if not content or any(rule.search(content) for rule in rules):
        return True
    try:
        tree = parsed(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _NAMED.search(content) is not None
    top = [node for node in _statements(tree.body) if not isinstance(node, ast.stmt) or not hasattr(node, "body")]
    names_things = _called([tree]) & _ANYWHERE or _called(top) & _AT_THE_TOP
    return bool(names_things) or any(map(_is_test, _statements(tree.body)))


def defines_tests(path: Path) -> bool:
    """Return whether a file has functions or methods of its own with the name of a test, whatever it is called."""
    try:
        tree = parsed(content_of(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    statements = [node for node in _statements(tree.body) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    inside = (part for node in statements if isinstance(node, ast.ClassDef) for part in node.body)
    functions = (node for node in (*statements, *inside) if isinstance(node, ast.FunctionDef))
    return any(function.name.startswith("test_") for function in functions)


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


def _called(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the plain names of the functions that are called in some nodes."""
    calls = (one.func for node in nodes for one in ast.walk(node) if isinstance(one, ast.Call))
    return {function.id for function in calls if isinstance(function, ast.Name)}


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
