"""Put faults into a candidate's own text, one each: the cases that find it right must find these wrong."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_KINDS_FIRST = ("launch dropped", "mask dropped", "loop ends early", "bound off by one", "term dropped")
Edit = Callable[[Any, ast.Module], None]


class Mutant(NamedTuple):
    """A text with one fault: its kind, the line, and what was changed."""

    kind: str
    line: int
    what: str
    source: str

    @property
    def text(self) -> str:
        """The fault in words."""
        return f"{self.kind} in line {self.line} ({self.what[:60]})"


def mutants(source: str, most: int) -> list[Mutant]:
    """Return up to so many mutants of Triton kernels and of ``forward``, of as many kinds as there are."""
    tree = ast.parse(source)
    found = [one for node, kind, edit in _faults(tree) if (one := _made(tree, node, kind, edit)) is not None]
    random.Random(0).shuffle(found)  # noqa: S311 (the same ones each time)
    by_kind: dict[str, list[Mutant]] = {}
    for one in sorted(found, key=lambda one: one.kind not in _KINDS_FIRST):
        by_kind.setdefault(one.kind, []).append(one)
    chosen: list[Mutant] = []
    while len(chosen) < most and any(by_kind.values()):
        chosen += [several.pop() for several in by_kind.values() if several]
    return chosen[:most]


def _made(tree: ast.Module, node: ast.AST, kind: str, edit: Edit) -> Mutant | None:
    """Return the mutant that an edit of one node makes; None if it is the same text."""
    new = copy.deepcopy(tree)
    twin = next(b for a, b in zip(ast.walk(tree), ast.walk(new), strict=True) if a is node)
    before = ast.unparse(node)
    edit(twin, new)
    text = ast.unparse(ast.fix_missing_locations(new))
    return Mutant(kind, getattr(node, "lineno", 0), before, text) if text != ast.unparse(tree) else None


def _functions(tree: ast.Module) -> Iterator[tuple[ast.FunctionDef, bool]]:
    """Yield the Triton kernels, and the other functions that compute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            kernel = any("jit" in ast.unparse(one) for one in node.decorator_list)
            if kernel or node.name != "__init__":
                yield node, kernel


def _faults(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Edit]]:
    """Yield each node with a kind of fault, and the edit that makes it."""
    for function, kernel in _functions(tree):
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                yield from _of_calls(node, kernel=kernel)
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt) and kernel:
                yield node, "bound off by one", _bound
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                yield node, "only the last one kept", lambda one, _: setattr(one, "op", ast.Sub())
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and not _is_place(node):
                yield node, "term dropped", lambda one, _: setattr(one, "value", one.value.left)
                if kernel:
                    yield node, "one more rounding", _rounded
            elif isinstance(node, ast.Constant) and type(node.value) is float and node.value == node.value:
                yield node, "constant", lambda one, _: setattr(one, "value", one.value * 1.001 + 0.001)
            elif isinstance(node, ast.Expr) and _is_launch(node.value):
                yield node, "launch dropped", lambda one, _: setattr(one, "value", ast.Constant(None))


def _of_calls(node: ast.Call, *, kernel: bool) -> Iterator[tuple[ast.AST, str, Edit]]:
    name = ast.unparse(node.func)
    if kernel and any(one.arg == "mask" for one in node.keywords):
        yield node, "mask dropped", _without_mask
    if kernel and name == "range" and len(node.args) == 3:
        yield node, "loop ends early", _shorter
    if "barrier" in name:
        yield node, "barrier dropped", _nothing
    if name.endswith((".maximum", ".clamp", ".relu")) and node.args:
        yield node, "maximum dropped", _first_argument


def _bound(node: Any, _: ast.Module) -> None:
    node.comparators[0] = ast.BinOp(node.comparators[0], ast.Sub(), ast.Constant(1))


def _rounded(node: Any, _: ast.Module) -> None:
    text = f"({ast.unparse(node.value)}).to(tl.bfloat16).to(tl.float32)"
    node.value = ast.parse(text, mode="eval").body


def _without_mask(node: Any, _: ast.Module) -> None:
    node.keywords = [one for one in node.keywords if one.arg not in ("mask", "other")]


def _shorter(node: Any, _: ast.Module) -> None:
    node.args[1] = ast.BinOp(node.args[1], ast.Sub(), node.args[2])


def _nothing(node: Any, new: ast.Module) -> None:
    for one in ast.walk(new):
        if isinstance(one, ast.Expr) and one.value is node:
            one.value = ast.Constant(None)


def _first_argument(node: Any, new: ast.Module) -> None:
    for one in ast.walk(new):
        for name, value in ast.iter_fields(one):
            if value is node:
                setattr(one, name, node.args[0])


def _is_place(node: ast.Assign) -> bool:
    """Return whether a value is where something lies, and no number of the result."""
    text = ast.unparse(node)
    return any(word in text for word in ("arange", "program_id", "ptr", "shape", "stride"))


def _is_launch(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
