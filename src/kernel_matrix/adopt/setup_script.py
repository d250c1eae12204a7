"""Read what setup.py says of a package without running it: it may need what is not installed here."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from packaging.metadata import RawMetadata

from kernel_matrix.base.syntax import parsed


def read(path: Path) -> RawMetadata | None:
    """Return what the call of ``setup`` says of the metadata; None without such a call."""
    words = words_of(path)
    if words is None:
        return None
    extras = {name: _texts(values) for name, values in (words.get("extras_require") or {}).items()}
    of_extras = [f"{text}; extra == '{name}'" for name, values in extras.items() for text in values if ";" not in text]
    found: RawMetadata = {
        "requires_dist": [*_texts(words.get("install_requires")), *of_extras],
        "provides_extra": list(extras),
    }
    for key, word in (("name", "name"), ("requires_python", "python_requires")):
        if isinstance(text := words.get(word), str):
            found[key] = text  # type: ignore[literal-required]
    return found


def words_of(path: Path) -> dict[str, Any] | None:
    """Return the words of the call of ``setup``, where they are plain values or names of such; None without a call."""
    try:
        tree = parsed(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    known: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            known[node.targets[0].id] = _value(node.value, known)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) == "setup"]
    return {word.arg: _value(word.value, known) for word in calls[-1].keywords if word.arg} if calls else None


def _name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")


def _value(node: ast.expr, known: dict[str, Any]) -> Any:
    """Return the value of an expression of plain values, names of such, and sums of lists; None for any other."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = _value(node.left, known), _value(node.right, known)
        return (
            [*_texts(sides[0]), *_texts(sides[1])] if all(isinstance(side, (list, tuple)) for side in sides) else None
        )
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_value(one, known) for one in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_value(key, known): _value(value, known) for key, value in pairs if key is not None}
    return node.value if isinstance(node, ast.Constant) else None


def _texts(values: Any) -> list[str]:
    return [text for text in values if isinstance(text, str)] if isinstance(values, (list, tuple)) else []
