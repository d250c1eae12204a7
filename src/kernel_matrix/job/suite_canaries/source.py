"""Find the place of a call in the source of a suite."""

from __future__ import annotations

import ast
import bisect
import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

_SPAN = ("lineno", "end_lineno", "col_offset", "end_col_offset")


def path_of(frame: FrameType) -> list[ast.AST]:
    """Return the nodes around the call that goes on in a frame; none where its source cannot be read."""
    tree = _tree(frame.f_code.co_filename)
    span = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    return enclosing(tree, span) if tree is not None and None not in span else []


def line_of(file: str, function: str) -> int:
    """Return the line at which a function of a file begins; the first one where it cannot be found."""
    nodes = ast.walk(_tree(file) or ast.Module([], []))
    functions = (node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((node.lineno for node in functions if node.name == function), 1)


@functools.lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def enclosing(node: ast.AST, span: Sequence[int | None]) -> list[ast.AST]:
    """Return the nodes that enclose a span of the source, from this one to the innermost."""
    line, end_line, column, end_column = span
    body = node.body if isinstance(node, (ast.Module, ast.ClassDef)) else []  # in order, and it may be long
    last = bisect.bisect_right(body, (line, column), key=lambda one: (one.lineno, one.col_offset))
    for child in itertools.chain(body[last - 1 : last], ast.iter_child_nodes(node)):
        of_child = [getattr(child, name, None) for name in _SPAN]
        if None in of_child:  # a node without a place of its own, such as a loop of a comprehension
            if len(found := enclosing(child, span)) > 1:
                return [node, *found]
        elif [*of_child[::2]] <= [line, column] and [end_line, end_column] <= [*of_child[1::2]]:
            return [node, *enclosing(child, span)]
    return [node]


def is_either(node: ast.Compare) -> bool:
    """Return whether an answer is only asked to be one: ``is None``, ``in (True, False)``, ``>= 0``."""
    other = node.comparators[0]
    if isinstance(node.ops[0], ast.GtE):
        return isinstance(other, ast.Constant) and other.value == 0
    values = {one.value for one in getattr(other, "elts", [other]) if isinstance(one, ast.Constant)}
    wanted = {True, False} if isinstance(node.ops[0], (ast.In, ast.NotIn)) else {None}
    return len(node.ops) == 1 and wanted <= values
