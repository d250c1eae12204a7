"""Tell what the names in the source of a suite stand for, and which statements skip a test or only say something."""

from __future__ import annotations

import ast
import builtins
import contextlib
import logging
import sys
import unittest
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

WATCHED = "__kernel_matrix_watched__"  # an attribute of a function that is watched
_SKIPS = ("pytest.skip", "pytest.xfail", "hypothesis.reject")
_SAYS = ("print", "hypothesis.note", "hypothesis.event", "hypothesis.target")  # they only say an answer
_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
_OF_HYPOTHESIS = ("assume", "reject", "note", "event", "target")


@dataclass
class Names:
    """The names of a frame."""

    frame: FrameType

    def _says(self, func: ast.expr) -> bool:
        """Return whether a function only says what it gets, to a person."""
        owner = self._value(func.value) if isinstance(func, ast.Attribute) else None
        logs = isinstance(owner, logging.Logger) or owner is logging
        return (logs and getattr(func, "attr", "") in _LOGS) or self._name(func) in _SAYS

    def _skips(self, node: Any) -> bool:
        """Return whether a statement or an expression skips the test, or rejects what was drawn."""
        if isinstance(node, ast.Raise):
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            return self._name(called) in ("unittest.SkipTest", "pytest.skip.Exception")
        call = node.value if isinstance(node, ast.Expr) else node
        if not isinstance(call, ast.Call):
            return False
        name = self._name(call.func)
        if name == "hypothesis.assume":
            return bool(call.args) and isinstance(call.args[0], ast.Constant) and not call.args[0].value
        return name in _SKIPS or name.endswith(".skipTest")

    def _is_idle(self, node: ast.stmt) -> bool:
        if not isinstance(node, ast.Expr):
            return isinstance(node, ast.Pass)
        call = node.value
        return isinstance(call, ast.Constant) or (isinstance(call, ast.Call) and self._says(call.func))

    def _name(self, node: ast.AST | None) -> str:
        """Return what a name stands for in the frame: that of a function that is known here, or as it is written."""
        value = self._value(node)
        for name, known in _known().items():
            if value is not None and value is known:
                return name
        if isinstance(node, ast.Attribute):
            return f"{self._name(node.value)}.{node.attr}"
        return node.id if isinstance(node, ast.Name) else ""

    def _value(self, node: ast.AST | None) -> Any:
        """Return what a name has in the module; of attributes those of modules, which nothing runs for.

        To read the frame's own names would keep its arrays alive.
        """
        if isinstance(node, ast.Name):
            return self.frame.f_globals.get(node.id, vars(builtins).get(node.id))
        if isinstance(node, ast.Attribute):
            owner = self._value(node.value)
            return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) or owner is _skip() else None
        return None


def _known() -> dict[str, Any]:
    """Return the functions that are known by what they are; the suite may name them as it likes."""
    hypothesis, pytest, skip = sys.modules.get("hypothesis"), sys.modules.get("pytest"), _skip()
    known = {f"hypothesis.{name}": getattr(hypothesis, name, None) for name in _OF_HYPOTHESIS}
    return known | {
        "pytest.skip": skip,
        "pytest.xfail": getattr(pytest, "xfail", None),
        "pytest.skip.Exception": getattr(skip, "Exception", None),
        "unittest.SkipTest": unittest.SkipTest,
        "contextlib.suppress": contextlib.suppress,
    }


def _skip() -> Any:
    """Return ``pytest.skip``, which who only reads results need not have."""
    return getattr(sys.modules.get("pytest"), "skip", None)
