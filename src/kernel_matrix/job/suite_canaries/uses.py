"""Tell from the source of a suite what it makes of a comparison: whether a "no" could make a test red.

Only what is certain is told. A comparison is kept as an assertion where its use is not: where the answer is stored,
handed on or counted, or where ``if`` goes another way and what follows may fail.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import Any

from kernel_matrix.job.suite_canaries.names import WATCHED
from kernel_matrix.job.suite_canaries.otherwise import Functions, Otherwise, is_always_true
from kernel_matrix.job.suite_canaries.source import enclosing, is_either, path_of

# What an assertion may call, and change nothing for what follows.
_READS = {
    "abs",
    "all",
    "any",
    "bool",
    "float",
    "int",
    "isinstance",
    "len",
    "max",
    "min",
    "sorted",
    "str",
    "sum",
    "type",
}
_ONLY_READ = {"jax.numpy", "math", "numpy", "numpy.testing", "torch", "torch.testing"}
_ANY = ("any", "max")
_Each = (ast.GeneratorExp, ast.ListComp)


class Use(enum.Enum):
    """Say what becomes of a comparison."""

    KEPT = "it may make a test red"
    ASSERTED = "a no is raised here"
    RETURNED = "the function returns the answer"
    DECIDES = "it decides what goes on, or nothing"


# What becomes of an answer that stands in a statement alone, and of one that nobody takes.
_ENDS = {
    ast.Return: Use.RETURNED,
    ast.Lambda: Use.RETURNED,
    ast.Expr: Use.DECIDES,
    ast.Assert: Use.ASSERTED,
}


class Uses:
    """Know what becomes of the comparisons of each place that calls."""

    def __init__(self) -> None:
        """Begin without any."""
        # By the identity of the code, which stays with it: the same function of two files is equal.
        self._known: dict[tuple[int, int, bool], tuple[CodeType, Use]] = {}

    def of(self, frame: FrameType, *, answers: bool, is_test: bool, called: str = "", each: bool = False) -> Use:
        """Return what becomes of the call that goes on in a frame; ``answers`` says that an answer comes of it.

        ``called`` is the name of what is called there. It may answer for ``each`` element: only who asks whether all
        are equal compares then.
        """
        key = id(frame.f_code), frame.f_lasti, answers
        if key not in self._known:
            path = path_of(frame)
            place = Place(frame, path, is_test=is_test).of_call(called) if path else None
            use = place.use(answers=answers) if place else Use.KEPT
            part = each and place is not None and not place.is_whole()
            self._known[key] = frame.f_code, Use.DECIDES if part else use
        return self._known[key][1]


@dataclass
class Place(Otherwise):
    """A node of the source, with all that encloses it, from the module down."""

    def of_call(self, called: str) -> Place:
        """Return the place of the call; it is the whole assertion where pytest has written that anew."""
        calls = [node for node in ast.walk(self.path[-1]) if isinstance(node, ast.Call)]
        named = [call for call in calls if self._name(call.func).rpartition(".")[2] == called]
        return self._at(named[0]) if isinstance(self.path[-1], ast.Assert) and len(named) == 1 else self

    def _is_with_itself(self) -> bool:
        """Return whether the comparison has the same name on both sides."""
        call = self.path[-1]
        if not isinstance(call, ast.Call) or not hasattr(self._value(call.func), WATCHED):
            return False
        names = [one.id if isinstance(one, ast.Name) else "" for one in call.args[:2]]
        return len(names) == 2 and names[0] == names[1] != ""

    def is_whole(self) -> bool:
        """Return whether an answer for each element becomes one for all, here or where its name is used."""
        parent, wanted = self.path[-2], "all"
        if isinstance(parent, ast.UnaryOp):  # any that is not
            parent, wanted = self.path[-3], "any"
        if isinstance(parent, ast.Assign):
            return any(self._at(one).is_whole() for one in self._named(parent, ast.Load))
        func = parent.func if isinstance(parent, ast.Call) else parent
        return self._name(func).rpartition(".")[2] == wanted

    def use(self, *, answers: bool) -> Use:
        """Return what becomes of what stands here."""
        if self._is_with_itself():
            return Use.DECIDES
        use = self._of_answer() if answers else Use.ASSERTED
        return Use.DECIDES if use is Use.ASSERTED and self._is_caught() else use

    def _of_answer(self) -> Use:
        statement = self._statement()
        if isinstance(statement, ast.Assert) and is_always_true(statement.test):
            return Use.DECIDES
        if isinstance(self.path[-1], ast.Assert):  # pytest has written it anew
            any_of = any(isinstance(node, ast.Or) for node in ast.walk(statement))
            return Use.DECIDES if any_of else Use.ASSERTED
        return self._of_expression()

    def _of_expression(self) -> Use:
        value: bool | None = False  # of the expression so far where the comparison says no; None: that depends
        behind: list[ast.expr] = []  # what runs or not, as the comparison says
        for parent, child in zip(self.path[-2::-1], self.path[:0:-1], strict=True):
            if isinstance(parent, ast.Expr) and any(map(self._calls, behind)):
                return Use.KEPT
            if isinstance(parent, ast.Assert) and value is True:
                return Use.DECIDES
            if type(parent) in _ENDS:
                return _ENDS[type(parent)]
            if isinstance(parent, (ast.If, ast.IfExp, ast.While)):
                leaves = child is parent.test and self._leaves(parent, value)
                return Use.DECIDES if leaves else Use.KEPT
            if isinstance(parent, ast.Assign):
                return self._of_name(parent)
            if isinstance(parent, ast.BoolOp):
                if self._is_beside(parent, child, value):
                    return Use.DECIDES
                behind += _later(parent, child)
                if any(self._may_end(node) for one in behind for node in ast.walk(one)):
                    return Use.KEPT
                value = value if value is isinstance(parent.op, ast.Or) else None
            elif isinstance(parent, ast.Compare) and child is parent.left and is_either(parent):
                return Use.DECIDES
            elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
                value = None if value is None else not value
            elif isinstance(parent, ast.Call) and child is not parent.func:
                use, value = self._of_argument(parent.func, value)
                if use:
                    return use
            elif isinstance(parent, ast.AugAssign):
                return Use.DECIDES if value is False and isinstance(parent.op, ast.BitOr) else Use.KEPT
            elif value is False and isinstance(parent, (ast.List, ast.Tuple)) and self._is_of_any(parent):
                return Use.DECIDES
            elif isinstance(parent, (ast.FormattedValue, ast.JoinedStr)):
                value = None
            elif not (_is_all(parent) or (isinstance(parent, _Each) and child is parent.elt)):
                return Use.KEPT
        return Use.KEPT

    def _of_argument(self, func: ast.expr, value: bool | None) -> tuple[Use | None, bool | None]:
        """Return what becomes of an answer that a function gets, or nothing, and what its own answer then is."""
        name = self._name(func)
        last = name.rpartition(".")[2]
        if (value is False and last in _ANY) or name in ("isinstance", "hypothesis.assume") or self._says(func):
            return Use.DECIDES, None
        if name not in ("bool", "int", "not_") and last not in ("all", "any"):
            return Use.KEPT, None
        return None, value if name in ("bool", "int") or value is (last == "any") else None

    def _is_beside(self, both: ast.BoolOp, child: ast.AST, value: bool | None) -> bool:
        """Return whether what stands beside it skips, is the same in any case, or decides where it says no."""
        others = [one for one in both.values if one is not child]
        if any(map(self._skips, others)) or any(_decides_alone(both.op, one) for one in both.values):
            return True
        asked = others if self.followed else _later(both, child)
        return value is isinstance(both.op, ast.And) and self._is_for_others(asked)

    def _leaves(self, branch: ast.If | ast.IfExp | ast.While, value: bool | None) -> bool:
        """Return whether a branch leaves the test without a failure, as the comparison says no or as it says yes.

        ``value`` is what the condition is where the comparison says no. A loop goes on until the condition ends it,
        unless its body has another end.
        """
        if isinstance(branch, ast.While):
            return not branch.orelse and not any(self._may_end(node) for one in branch.body for node in ast.walk(one))
        if isinstance(branch, ast.If) and self._only_ends_loop(branch):
            return True
        if isinstance(branch, ast.If) and all(self._is_idle(one) for one in (*branch.body, *branch.orelse)):
            return True
        if value is None:
            return False
        no, yes = (branch.body, branch.orelse) if value else (branch.orelse, branch.body)
        if isinstance(no, ast.expr) or isinstance(yes, ast.expr):
            return self._skips(no) or self._skips(yes) or (isinstance(no, ast.expr) and self.asks(no))
        left_out = self._without(branch, no) if isinstance(branch, ast.If) else None
        if left_out is not None and self._only_asserts([*yes, *left_out]):
            return True
        leaves = self._ends(no, returns=self.is_test) or self._ends(yes, returns=False)
        return leaves or self.another_asks(no, yes, branch)

    def _is_of_any(self, node: ast.AST) -> bool:
        """Return whether some of a list are asked for, of which this is one."""
        around = self.path[[one is node for one in self.path].index(True) - 1]
        return isinstance(around, ast.Call) and self._name(around.func).rpartition(".")[2] in _ANY

    def _is_for_others(self, others: Sequence[ast.expr]) -> bool:
        """Return whether others of an ``or`` decide where the comparison says no."""
        if not others or any(self.fails(node) for one in others for node in ast.walk(one)):
            return False
        return not isinstance(self._statement(), ast.Expr) or any(map(self.asks, others))

    def _statement(self) -> ast.stmt:
        return next(node for node in reversed(self.path) if isinstance(node, ast.stmt))

    def _without(self, branch: ast.If, no: Sequence[ast.stmt]) -> Sequence[ast.stmt] | None:
        """Return what else of a loop does not run where the comparison says no; None if that does more than go on."""
        loop = self.path[[node is branch for node in self.path].index(True) - 1]
        done = [one for one in no if not self._is_idle(one)]
        if (
            done
            and isinstance(done[0], ast.Continue)
            and isinstance(loop, (ast.For, ast.While))
            and branch in loop.body
        ):
            return loop.body[loop.body.index(branch) + 1 :]
        return None if done else []

    def _only_asserts(self, body: Sequence[ast.stmt]) -> bool:
        """Return whether statements assert, and change nothing for what follows."""
        nodes = [node for one in body for node in ast.walk(one)]
        calls = (node.func for node in nodes if isinstance(node, ast.Call))
        changes = any(isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for node in nodes)
        asserts = all(isinstance(one, (ast.Assert, ast.Expr, ast.Pass)) for one in body)
        return asserts and not changes and all(self._reads(func) or self._says(func) for func in calls)

    def _reads(self, func: ast.expr) -> bool:
        """Return whether a function only looks at its arguments, or fails."""
        if isinstance(func, ast.Name):
            return func.id in _READS and self._value(func) is vars(builtins).get(func.id)
        if not isinstance(func, ast.Attribute):
            return False
        module = self._value(func.value)
        known = isinstance(module, ModuleType) and module.__name__ in _ONLY_READ
        return known or func.attr in ("all", "any") or (func.attr.startswith("assert") and func.attr[6:7].isupper())

    def _only_ends_loop(self, branch: ast.If) -> bool:
        """Return whether a branch is the one end of an endless loop."""
        loop = self.path[[node is branch for node in self.path].index(True) - 1]
        if not isinstance(loop, ast.While) or not isinstance(loop.test, ast.Constant) or branch.orelse:
            return False
        *before, last = branch.body
        ends = sum(self._may_end(node) for one in loop.body for node in ast.walk(one))
        return isinstance(last, ast.Break) and ends == 1 and all(self._is_idle(one) for one in before)

    def _may_end(self, node: ast.AST) -> bool:
        """Return whether a node may end a loop, or fail, or counts for what asks later."""
        if isinstance(node, ast.Call):
            name = self._name(node.func).rpartition(".")[2]
            return name == "fail" or name.lower().startswith("assert")
        return isinstance(node, (ast.Assert, ast.Raise, ast.Break, ast.Return, ast.AugAssign))

    def _ends(self, body: Sequence[ast.stmt], *, returns: bool) -> bool:
        """Return whether statements end the test as skipped, or as passed where they may return."""
        if not body:
            return False
        *before, last = body
        ends = self._skips(last) or (returns and isinstance(last, ast.Return) and _is_nothing(last.value))
        return ends and all(self._is_idle(one) for one in before)

    def _calls(self, node: ast.AST) -> bool:
        """Return whether an expression calls what may fail."""
        calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
        return not all(self._says(call.func) for call in calls)

    def _of_name(self, stored: ast.Assign) -> Use:
        """Return what becomes of an answer that got a name: it decides where each use of the name does, or none is."""
        function, target = self._function(), stored.targets[0]
        if function is None or len(stored.targets) > 1 or not isinstance(target, ast.Name):
            return Use.KEPT
        if target.id in self.followed:
            return Use.DECIDES  # as its other uses do
        elsewhere = [node for node in ast.walk(function) if isinstance(node, (ast.Global, ast.Nonlocal))]
        if elsewhere or len(self._named(stored, ast.Store)) > 1:
            return Use.DECIDES if self._is_overwritten(stored) else Use.KEPT
        uses = {self._at(one, target.id)._of_answer() for one in self._named(stored, ast.Load)}
        if not uses <= {Use.DECIDES, Use.RETURNED}:
            return Use.KEPT
        return Use.RETURNED if Use.RETURNED in uses else Use.DECIDES

    def _is_overwritten(self, stored: ast.Assign) -> bool:
        """Return whether another value gets the name at once, and nothing asks for this one."""
        parent = self.path[[node is stored for node in self.path].index(True) - 1]
        block = next(one for one in vars(parent).values() if isinstance(one, list) and stored in one)
        after = (one for one in block[block.index(stored) + 1 :] if not self._is_idle(one))
        then, caught = next(after, None), any(isinstance(node, ast.Try) for node in self.path)
        if caught or not isinstance(then, ast.Assign) or ast.dump(then.targets[0]) != ast.dump(stored.targets[0]):
            return False
        return not any(one in ast.walk(then.value) for one in self._named(stored, ast.Load))

    def _function(self) -> ast.AST | None:
        return next((node for node in reversed(self.path) if isinstance(node, Functions)), None)

    def _named(self, stored: ast.Assign, context: Any) -> list[ast.Name]:
        """Return the uses of a name in the function that stores it."""
        nodes, name = ast.walk(self._function() or stored), getattr(stored.targets[0], "id", None)
        names = [node for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, context)]
        return [node for node in names if node.id == name]

    def _at(self, node: ast.expr, *followed: str) -> Place:
        span = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
        return Place(self.frame, enclosing(self.path[0], span), self.is_test, self.followed.union(followed))

    def _is_caught(self) -> bool:
        """Return whether a failure of what stands here is caught, and the test then passes or skips itself."""
        for parent, child in zip(self.path[-2::-1], self.path[:0:-1], strict=True):
            if isinstance(parent, Functions):
                return False
            if isinstance(parent, ast.Try) and self._ends(parent.finalbody, returns=self.is_test):
                return True
            if isinstance(parent, ast.Try) and child in parent.body:
                last = child is parent.body[-1] and not parent.orelse
                caught = next((one for one in parent.handlers if self._takes([one.type] if one.type else [])), None)
                if caught and self._ends(caught.body, returns=self.is_test):
                    return True
                if caught:
                    idle = last and all(self._is_idle(one) for one in caught.body)
                    return idle or self.another_asks(caught.body, [*parent.body, *parent.orelse], parent)
            if isinstance(parent, (ast.With, ast.AsyncWith)) and child is parent.body[-1]:
                calls = [one.context_expr for one in parent.items if isinstance(one.context_expr, ast.Call)]
                if any(self._name(call.func) == "contextlib.suppress" and self._takes(call.args) for call in calls):
                    return True
        return False

    def _takes(self, types: Iterable[ast.expr]) -> bool:
        """Return whether exceptions that are caught have assertions among them; without any all are caught."""
        of_tuples = [one for type_ in types for one in (type_.elts if isinstance(type_, ast.Tuple) else [type_])]
        names = {self._name(one) for one in of_tuples}
        return not names or bool(names & {"AssertionError", "Exception", "BaseException"})


def _later(both: ast.BoolOp, child: ast.AST) -> list[ast.expr]:
    """Return what is asked after a part of an ``and`` or an ``or``."""
    return both.values[[one is child for one in both.values].index(True) + 1 :]


def _decides_alone(op: ast.boolop, value: ast.expr) -> bool:
    """Return whether a constant makes all of an expression true, or false, whatever else it has."""
    return isinstance(value, ast.Constant) and bool(value.value) is isinstance(op, ast.Or)


def _is_all(parent: ast.AST) -> bool:
    """Return whether a node is a part of ``child.all()``."""
    return isinstance(parent, ast.Call) or (isinstance(parent, ast.Attribute) and parent.attr == "all")


def _is_nothing(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
