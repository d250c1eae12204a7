"""Find the names of Triton that packages use and a release lacks. Nothing is compiled for this.

A name that stays and raises an error, and an attribute of a value, are not seen here.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.words import and_more

_ASK = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")

def is_there(name):
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except Exception:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
            if not isinstance(found, (type(sys), type)):
                break
        return True
    return False

print(json.dumps([name for name in json.load(sys.stdin) if not is_there(name)]))
"""


Use = tuple[str, int]  # of a name: its first place, and in how many it is


def used_in(root: Path, files: Iterable[Path]) -> dict[str, Use]:
    """Return the names of Triton that files use. A file that is no Python has none."""
    names: dict[str, Use] = {}
    for file in files:
        try:
            tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        except (SyntaxError, ValueError):
            continue
        place = file.relative_to(root) if file.is_relative_to(root) else file
        for name, line in _names(tree):
            first, count = names.get(name, (f"{place}:{line}", 0))
            names[name] = first, count + 1
    return names


def _names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    known: dict[str, str] = {}
    for node in ast.walk(tree):
        for local, name in _imported(node):
            known[local] = name
            yield name if local != "triton" else "triton", node.lineno  # type: ignore[attr-defined]  # a statement
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            parts: list[str] = []
            inner: ast.expr = node
            while isinstance(inner, ast.Attribute):
                parts.append(inner.attr)
                inner = inner.value
            if isinstance(inner, ast.Name) and inner.id in known:
                yield ".".join([known[inner.id], *reversed(parts)]), node.lineno


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what an import binds: the local name, and the name of Triton that it is."""
    if isinstance(node, ast.Import):
        for one in node.names:
            if one.name.partition(".")[0] == "triton":
                yield one.asname or "triton", one.name if one.asname else "triton"
    elif isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "triton":
        for one in node.names:
            if one.name != "*":
                yield one.asname or one.name, f"{node.module}.{one.name}"


def absent_in(python: str, triton: Path, names: Iterable[str]) -> list[str]:
    """Return the names that a release of Triton does not have.

    Raises:
        UserError: it cannot be imported.
    """
    variables = {**os.environ, "PYTHONPATH": str(triton)}
    text = json.dumps(sorted(names))
    run = subprocess.run([python, "-c", _ASK], input=text, env=variables, capture_output=True, text=True, check=False)
    if run.returncode:
        raise UserError(f"{triton.name} cannot be asked: {run.stderr.strip().rpartition(chr(10))[2]}")
    return list(json.loads(run.stdout.strip().rpartition("\n")[2]))


def gone(absent: Mapping[str, Sequence[str]], used: Mapping[str, Mapping[str, Use]]) -> Iterator[str]:
    """Yield a line for each name that a release lacks and the release before has, with the packages that use it.

    ``absent`` has the names by release, the oldest first, and ``used`` their uses by package and name.
    """
    releases = list(absent)
    for before, now in pairwise(releases):
        for name in absent[now]:
            if name in absent[before]:
                continue
            uses = ((package, *names[name]) for package, names in used.items() if name in names)
            users = [f"{package} ({and_more(first, count - 1)})" for package, first, count in uses]
            yield f"`{name}` is gone in triton {now}: {', '.join(users)}"
