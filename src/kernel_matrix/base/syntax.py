"""Parse Python source in one thread at a time, and tell its code from its comments, docstrings and layout."""

from __future__ import annotations

import ast
from threading import Lock
from typing import Any

# Python 3.11 counts the depth of all threads' syntax trees in one number. Where the collection of garbage lets another
# thread go on in the middle of one, both count, and the first ends in "SystemError: AST constructor recursion depth
# mismatch" (python/cpython#106905).
_ONE_AT_A_TIME = Lock()
_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def parsed(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a Python file.

    Raises:
        SyntaxError: it is no Python. ValueError, RecursionError and MemoryError are raised as by ``ast.parse``.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(source)


def code_of(source: str) -> str:
    """Return a Python text's code without comments, docstrings and layout, the same with every version of Python.

    Raises:
        SyntaxError: it is no Python. ValueError and RecursionError are raised as by ``ast.parse``.
    """
    parts: list[str] = []
    _enter(parsed(source), parts)
    return "".join(parts)


def _joined(values: list[ast.expr]) -> list[ast.expr]:
    """Return the parts of an f-string without empty texts, and texts in a row as one: Python 3.12 cuts them anew."""
    joined: list[ast.expr] = []
    for value in values:
        last = joined[-1] if joined else None
        if not isinstance(value, ast.Constant):
            joined.append(value)
        elif isinstance(last, ast.Constant):
            joined[-1] = ast.Constant(str(last.value) + str(value.value))
        elif value.value:
            joined.append(value)
    return joined


def _enter(node: Any, parts: list[str]) -> None:
    """Append the text of a node. Fields that are empty are left out: a later Python knows more of them."""
    if isinstance(node, ast.AST):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
        elif isinstance(node, ast.JoinedStr):
            node.values = _joined(node.values)
        parts.append(f"{type(node).__name__}(")
        for name in node._fields:
            value = getattr(node, name, None)
            if value is not None and value != []:
                parts.append(f"{name}=")
                _enter(value, parts)
        parts.append(")")
    elif isinstance(node, list):
        parts.append("[")
        for value in node:
            _enter(value, parts)
            parts.append(",")
        parts.append("]")
    else:
        parts.append(ascii(node))
