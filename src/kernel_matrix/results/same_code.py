"""Tell whether two texts of a Python file are the same code: comments, docstrings and layout change no result."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.syntax import parsed
from kernel_matrix.config.concern import concerned
from kernel_matrix.config.model import Matrix

_WITH_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def is_same_code(former: str, present: str) -> bool:
    """Return whether two Python texts differ in comments, docstrings and layout alone; not so if one is no Python."""
    try:
        return _code(former) == _code(present)
    except (SyntaxError, ValueError, RecursionError):
        return False


def with_other_code(matrix: Matrix, root: Path, revision: str, paths: Sequence[str]) -> list[str]:
    """Return the changed files without those Python files that are the same code as at ``revision``.

    Behind the first file that concerns everything no other is compared: it decides already.
    """
    different: list[str] = []
    for place, path in enumerate(paths):
        if path.endswith(".py") and _is_same_as_at(root, revision, path):
            continue
        different.append(path)
        if concerned(matrix, [path]).everything:
            return [*different, *paths[place + 1 :]]
    return different


def _is_same_as_at(root: Path, revision: str, path: str) -> bool:
    file = root / path
    former = git.text_at(root, revision, path) if file.is_file() else None
    return former is not None and is_same_code(former, file.read_text(encoding="utf-8", errors="replace"))


def _code(text: str) -> str:
    tree = parsed(text)
    for node in ast.walk(tree):
        if isinstance(node, _WITH_DOCSTRING) and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)
