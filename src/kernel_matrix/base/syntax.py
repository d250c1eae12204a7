"""Parse Python source in one thread at a time."""

from __future__ import annotations

import ast
from threading import Lock

# Python 3.11 counts the depth of all threads' syntax trees in one number. Where the collection of garbage lets another
# thread go on in the middle of one, both count, and the first ends in "SystemError: AST constructor recursion depth
# mismatch" (python/cpython#106905).
_ONE_AT_A_TIME = Lock()


def parsed(source: str | bytes) -> ast.Module:
    """Return the syntax tree of a Python file.

    Raises:
        SyntaxError: it is no Python. ValueError, RecursionError and MemoryError are raised as by ``ast.parse``.
    """
    with _ONE_AT_A_TIME:
        return ast.parse(source)
