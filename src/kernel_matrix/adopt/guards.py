"""Leave out of Python code what only runs where a GPU or a TPU is, by its conditions, skips and assertions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

# Modules that cannot be imported without a GPU or its libraries: whoever skips without them has no test on a CPU.
GPU_MODULES = {"cupy", "cupyx", "cudf", "tensorrt", "flash_attn", "pycuda", "cuda", "transformer_engine", "pynvml"}
_HERE = re.compile(r"(?<!numba\.)\b(cuda|xpu|hip|rocm|mps)\.(is_available|device_count)$|\.is_cuda$|\.is_xpu$")
_DEVICES = {"cuda", "gpu", "tpu", "rocm", "hip", "xpu"}
_OF_A_DEVICE = re.compile(r"device|platform|backend")
_INTERPRETED = re.compile(r"interpret|simulat|CUDASIM", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


class Needs(NamedTuple):
    """The outcomes of a condition that need a GPU: that it is true, and that it is false."""

    true: bool = False
    false: bool = False


class Guards:
    """The guards of a file: its conditions, skips and assertions that ask for a GPU.

    ``whole`` gives the name of an expression as it is outside of the file, and ``define`` the statements that define
    such a name, each with the guards of its file.
    """

    def __init__(
        self, define: Callable[[str], Iterable[tuple[Guards, ast.AST]]], whole: Callable[[ast.AST], str]
    ) -> None:
        self._define, self._whole = define, whole
        self._local: dict[str, list[ast.expr]] = {}  # the values of the names of the function that is read

    def live(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield a node and those in it, except what needs a GPU to be run."""
        yield node
        outer = self._local
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self._local = {**outer, **_assigned(node)}
        for one in self.children(node):
            yield from self.live(one)
        self._local = outer

    def children(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes right below one, except what needs a GPU to be run."""
        if any(self.skips(mark) for mark in getattr(node, "decorator_list", ())):
            return
        needs = self.needs(node.test) if isinstance(node, (ast.If, ast.IfExp, ast.While)) else Needs()
        for name, value in ast.iter_fields(node):
            if (name == "body" and needs.true) or (name == "orelse" and needs.false):
                continue
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, ast.AST):
                    yield one
                    if isinstance(one, ast.stmt) and self.ends(one):
                        break

    def ends(self, node: ast.stmt) -> bool:
        """Return whether what follows a statement needs a GPU."""
        if isinstance(node, ast.If):
            return self.needs(node.test).false and self._leaves(node.body)
        if isinstance(node, ast.Assert):
            return self.needs(node.test).true
        if isinstance(node, ast.Assign) and any(ast.unparse(to) == "pytestmark" for to in node.targets):
            given = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
            return any(map(self.skips, given))
        asked = getattr(node, "value", None)
        if isinstance(asked, ast.Call) and self._whole(asked.func).endswith("importorskip") and asked.args:
            first = asked.args[0]
            return isinstance(first, ast.Constant) and str(first.value).partition(".")[0] in GPU_MODULES
        return False

    def _leaves(self, body: Sequence[ast.stmt]) -> bool:
        last = body[-1]
        is_call = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
        name = self._whole(last.value.func) if is_call else ""  # type: ignore[attr-defined]
        return isinstance(last, _LEAVES) or name.rpartition(".")[2] in ("skip", "skipTest", "exit", "xfail")

    def skips(self, mark: ast.AST, depth: int = 4) -> bool:
        """Return whether a decorator, or a mark of pytest, skips a test where no GPU is."""
        if isinstance(mark, ast.Call):
            name = self._whole(mark.func).rpartition(".")[2]
            asked = [*mark.args, *(one.value for one in mark.keywords if one.arg == "condition")][:1]
            if name in ("skipif", "skipIf"):
                return any(self.needs(one).false for one in asked)
            if name == "skipUnless":
                return any(self.needs(one).true for one in asked)
        return depth > 0 and any(guards.skips(value, depth - 1) for guards, value in self._values(mark))

    def needs(self, test: ast.AST, depth: int = 6) -> Needs:
        """Return what the two outcomes of a condition need."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return Needs(*reversed(self.needs(test.operand, depth)))
        if isinstance(test, ast.BoolOp):
            parts = [self.needs(value, depth) for value in test.values]
            is_and = isinstance(test.op, ast.And)
            one, other = (any, all) if is_and else (all, any)
            is_known = not _INTERPRETED.search(ast.unparse(test))
            return Needs(is_known and one(p.true for p in parts), is_known and other(p.false for p in parts))
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test, depth)
        if _HERE.search(self._whole(test.func if isinstance(test, ast.Call) else test)):
            return Needs(true=True)
        if isinstance(test, ast.Call) and ast.unparse(test.func) in ("bool", "any") and test.args:
            return self.needs(test.args[0], depth - 1)
        if isinstance(test, (ast.GeneratorExp, ast.ListComp)):
            return self.needs(test.elt, depth)
        found = [guards.needs(one, depth - 1) for guards, one in self._values(test)] if depth else []
        return Needs(bool(found) and all(one.true for one in found), bool(found) and all(one.false for one in found))

    def _compared(self, test: ast.Compare, depth: int) -> Needs:
        left, right, is_same = test.left, test.comparators[0], isinstance(test.ops[0], (ast.Eq, ast.Is, ast.In))
        words = _words(right)
        if words and isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
            is_cpu, is_gpu = words == {"cpu"}, words <= _DEVICES
            if not (is_cpu or is_gpu) or not self._is_of_a_device(left):
                return Needs()
            return Needs(is_gpu, is_cpu) if is_same else Needs(is_cpu, is_gpu)
        if not isinstance(right, ast.Constant) or isinstance(right.value, str):
            return Needs()
        needs = self.needs(left, depth - 1)
        return Needs(*reversed(needs)) if is_same and not right.value else needs

    def _is_of_a_device(self, node: ast.AST) -> bool:
        values = [value for _, value in self._values(node)]
        return any(_OF_A_DEVICE.search(ast.unparse(one)) for one in (node, *values))

    def _values(self, node: ast.AST) -> Iterator[tuple[Guards, ast.AST]]:
        """Yield what a name stands for: the values that it is given, and what a function of it returns."""
        if isinstance(node, ast.Name) and node.id in self._local:
            yield from ((self, value) for value in self._local[node.id])
            return
        for guards, one in self._define(self._whole(node.func if isinstance(node, ast.Call) else node)):
            if isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
                yield guards, one.value
            elif isinstance(one, ast.FunctionDef):
                yield from ((guards, value) for value in _returned(one))


def _words(node: ast.AST) -> set[str]:
    """Return the texts that something is compared with, or looked for among, without the numbers of devices."""
    items = node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]
    words = [
        one.value.partition(":")[0] for one in items if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    return {*words} if len(words) == len(items) else set()


def _assigned(node: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, list[ast.expr]]:
    """Return the values that a function gives its names; a name that it gets as an argument may have any."""
    found: dict[str, list[ast.expr]] = {}
    for one in ast.walk(node):
        for target in one.targets if isinstance(one, ast.Assign) else ():
            if isinstance(target, ast.Name) and isinstance(one, ast.Assign):
                found.setdefault(target.id, []).append(one.value)
    return {**found, **{one.arg: [] for one in ast.walk(node.args) if isinstance(one, ast.arg)}}


def _returned(node: ast.FunctionDef) -> Iterable[ast.AST]:
    """Yield what a function returns, without the plain ``False``."""
    values = [one.value for one in ast.walk(node) if isinstance(one, ast.Return) and one.value is not None]
    return [value for value in values if not (isinstance(value, ast.Constant) and value.value is False)]
