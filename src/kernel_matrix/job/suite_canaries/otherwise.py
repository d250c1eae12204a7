"""Tell from the source of a suite whether another comparison decides where one says no: then this is no evidence."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernel_matrix.job.suite_canaries.names import WATCHED, Names

Functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LEAVES = (ast.Return, ast.Break, ast.Continue)
_ASKS = (
    "assert",
    "check",
    "compare",
    "verify",
    "validate",
    "expect",
)  # how names of functions begin that compare
_RECORDS = {"append", "add", "extend", "insert", "update"}  # methods by which what was found is kept for later
_FULL = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.JoinedStr, ast.Lambda)


def is_always_true(test: ast.expr) -> bool:
    """Return whether what is asserted is true whatever a comparison in it says: a tuple, a text, a method."""
    return isinstance(test, _FULL) or (isinstance(test, ast.Attribute) and isinstance(test.value, ast.Call))


@dataclass
class Otherwise(Names):
    """A node of the source, with all that encloses it, and what runs where it says no."""

    path: Sequence[ast.AST]
    is_test: bool = False  # whether the frame is that of the test
    followed: frozenset[str] = frozenset()  # names whose uses are looked at already

    def another_asks(self, no: Sequence[ast.stmt], yes: Sequence[ast.stmt], branch: ast.AST) -> bool:
        """Return whether another comparison or assertion decides where this one says no.

        ``no`` runs then, and ``yes`` where it says yes. Both are of the statement ``branch``.
        """
        if (asks := self._first(no)) is not None:
            return asks
        leaves = yes[-1] if yes and isinstance(yes[-1], _LEAVES) else None
        return leaves is not None and self._asks_after(branch, leaves)

    def asks(self, node: ast.AST) -> bool:
        """Return whether a node has a comparison or an assertion in it."""
        return any(self._is_question(one) for one in ast.walk(node))

    def fails(self, node: ast.AST) -> bool:
        """Return whether a statement or an expression makes the test red, whatever its numbers are."""
        if isinstance(node, ast.Raise):
            return not self._skips(node)
        if isinstance(node, ast.Assert):
            return isinstance(node.test, ast.Constant) and not node.test.value
        call = node.value if isinstance(node, ast.Expr) else node
        if not isinstance(call, ast.Call):
            return False
        name = self._name(call.func).rpartition(".")[2]
        of_nothing = bool(call.args) and isinstance(call.args[0], ast.Constant) and not call.args[0].value
        return name == "fail" or (name.startswith("assert") and len(call.args) < 3 and of_nothing)

    def _asks_after(self, node: ast.AST, leaves: ast.stmt) -> bool:
        """Return whether another asks behind a statement, which a yes leaves as ``leaves`` says."""
        path = self.path[: [one is node for one in self.path].index(True) + 1]
        for parent, child in zip(path[-2::-1], path[:0:-1], strict=True):
            if (asks := self._first(_behind(parent, child))) is not None:
                return asks
            if isinstance(parent, Functions):
                return self.is_test
            if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)) and not isinstance(leaves, ast.Return):
                again = isinstance(parent, (ast.For, ast.AsyncFor)) and isinstance(leaves, ast.Break)
                return again and (self._varies(parent) or bool(self._first(parent.orelse)))
            if isinstance(parent, (ast.For, ast.AsyncFor)) and self._varies(parent):
                return True
        return False

    def _first(self, body: Sequence[ast.stmt]) -> bool | None:
        """Return whether statements ask; no where they fail, or keep what was found for later; None for none of it."""
        leaves = any(isinstance(node, _LEAVES) for one in body for node in ast.walk(one))
        if not leaves and any(map(self.fails, body)):
            return False
        for one in body:
            if self._is_idle(one):
                continue
            if self.fails(one):
                return False
            if self.asks(one) or (isinstance(one, ast.Return) and _compares(one)):
                return True
            failing = [node for node in ast.walk(one) if self.fails(node)]
            if failing and isinstance(one, ast.If):
                return not _is_of_a_flag(one.test)
            if failing or isinstance(one, ast.Return) or _records(one):
                return False
        return None

    def _varies(self, loop: Any) -> bool:
        """Return whether the rounds of a loop compare differently: what is compared has a name of the loop."""
        names = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
        nodes = (node for one in (loop.body if self.followed else [self.path[-1]]) for node in ast.walk(one))
        return any(isinstance(node, ast.Name) and node.id in names for node in nodes)

    def _is_question(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Assert):
            return not self.fails(node)
        if not isinstance(node, ast.Call) or self.fails(node):
            return False
        name = self._name(node.func).rpartition(".")[2].lstrip("_").lower()
        named = name.startswith(_ASKS) or ("close" in name and len(node.args) > 1)
        return named or name == "equal" or hasattr(self._value(node.func), WATCHED)


def _behind(parent: ast.AST, child: ast.AST) -> Sequence[ast.stmt]:
    """Return the statements behind one in the same block."""
    if not isinstance(child, ast.stmt):
        return []
    blocks = [one for one in vars(parent).values() if isinstance(one, list)]
    block = next((one for one in blocks if any(node is child for node in one)), [child])
    behind: Sequence[ast.stmt] = block[[node is child for node in block].index(True) + 1 :]
    return behind


def _compares(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Compare) for one in ast.walk(node))


def _records(one: ast.stmt) -> bool:
    """Return whether a statement keeps for later that this place was reached."""
    if isinstance(one, ast.Assign):
        plain = all(isinstance(target, (ast.Name, ast.Tuple)) for target in one.targets)
        return isinstance(one.value, ast.Constant) or not plain
    calls = (node.func for node in ast.walk(one) if isinstance(node, ast.Call))
    kept = any(isinstance(func, ast.Attribute) and func.attr in _RECORDS for func in calls)
    return kept or any(isinstance(node, ast.AugAssign) for node in ast.walk(one))


def _is_of_a_flag(test: ast.expr) -> bool:
    """Return whether a condition asks for no numbers: a flag, or how often something was tried."""
    nodes = [*ast.walk(test)]
    counts = all(
        any(
            isinstance(one, ast.Constant) and not isinstance(one.value, float) for one in (node.left, *node.comparators)
        )
        for node in nodes
        if isinstance(node, ast.Compare)
    )
    return counts and not any(isinstance(node, ast.Call) for node in nodes)
