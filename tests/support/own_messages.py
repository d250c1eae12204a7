"""Find the messages of the harness that can become the reason of a case, in the rooms that run one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "kernel_matrix"
_ROOMS = ("job", "kit", "run")
# What ends a command and no case, what another part of the harness catches, and what Python itself asks a class for.
_NO_REASON = {
    "UserError",
    "StoppedError",
    "BusyError",
    "UnavailableError",
    "KeyError",
    "AttributeError",
    "PermissionError",
}
_NAMES = {"message", "reason", "words", "ENDED", "_CUT", "_NO_LIST", "_NOT_LISTED"}  # of variables with such a text
_SAYS = re.compile("Return (that|why|how a process ended)")  # begins the docstring of a function that makes one
_LEAST = 15  # characters of a sentence


def own_messages() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of each message; what it is filled with is a ``7``."""
    for room in _ROOMS:
        for path in sorted((SOURCE / room).rglob("*.py")):
            for line, text in _of(ast.parse(path.read_text())):
                if len(text.replace("7", "")) >= _LEAST:
                    yield f"{path.relative_to(SOURCE)}:{line}", text


def _of(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each text that is raised, or given as the message of a record."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = getattr(node.exc.func, "id", getattr(node.exc.func, "attr", ""))
            if name not in _NO_REASON and node.exc.args:
                yield from _texts(node.exc.args[0])
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "message":
                    yield from _texts(keyword.value)
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "message":
                    yield from _texts(value)
        if isinstance(node, ast.Assign):
            targets = getattr(node.targets[0], "elts", node.targets)
            named = zip(targets, getattr(node.value, "elts", [node.value]), strict=False)
            yield from (text for name, value in named if getattr(name, "id", "") in _NAMES for text in _texts(value))
        if isinstance(node, ast.FunctionDef) and _SAYS.match(ast.get_docstring(node) or ""):
            returned = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return) and inner.value)
            yield from (text for value in returned for text in _texts(value))


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    elif isinstance(node, ast.JoinedStr):
        yield node.lineno, "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))
    elif isinstance(node, ast.BoolOp):
        yield from (text for value in node.values for text in _texts(value))
