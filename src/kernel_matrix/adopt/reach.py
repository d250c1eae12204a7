"""Find out which kernels the tests of a repository reach on a machine without a GPU, and which code for the CPU.

From what the tests import and name one follows all names, in the modules of the package. What is called by a name that
is made as the program runs cannot be followed: then all of the package counts as reached.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from kernel_matrix.adopt.guards import Guards
from kernel_matrix.adopt.modules import Module, dotted, marks, read
from kernel_matrix.adopt.repository import Repository

# A function with such a decorator is called by another name than its own.
_REGISTERS = re.compile(r"regist|custom|impl|overload|dispatch|library|fixture|intrinsic")
_DYNAMIC = ("import_module", "__import__", "entry_points")


@dataclass(frozen=True)
class Reached:
    """The frameworks whose kernels there are, those whose kernels tests reach, and those whose code for the CPU."""

    there: frozenset[str]
    kernels: frozenset[str]
    native: frozenset[str]


def reached(repository: Repository) -> Reached:
    """Return what the tests of a repository reach on a CPU."""
    search = _Search(repository)
    search.run()
    every = {one for module in search.modules.values() for one in search.made(module, ast.walk(module.tree))}
    return Reached(
        frozenset(name for name, is_kernel in every if is_kernel),
        frozenset(name for name, is_kernel in search.found if is_kernel),
        frozenset(name for name, is_kernel in search.found if not is_kernel),
    )


class _Search:
    """The search from the tests on."""

    def __init__(self, repository: Repository) -> None:
        tests = [*read(repository, (one.path for one in repository.tests))]
        own = [*read(repository, (one.path for one in repository.own))]
        self.modules = {module.name: module for module in (*tests, *own)}
        for module in tests:  # their folder is on the import path
            words = module.name.split(".")
            for count in range(1, len(words)):
                self.modules.setdefault(".".join(words[count:]), module)
        self.found: set[tuple[str, bool]] = set()
        self._parts = {one.name: _parts(one) for one in self.modules.values()}
        self._guards = {one.name: self._guards_of(one) for one in self.modules.values()}
        self._top: dict[str, list[ast.stmt]] = {}
        self._tests, self._own = tests, own
        self._seen: set[tuple[str, str]] = set()
        self._next: list[tuple[Module, str]] = []

    def run(self) -> None:
        """Follow all names from the tests on."""
        for module in self._tests:
            self._enter(module, "*")
        while self._next:
            module, name = self._next.pop()
            if module.name not in self._top:
                self._top[module.name] = self._live_at_the_top(module)
            statements = self._top[module.name]
            if name not in ("", "*"):
                statements = [one for one in statements if name in _names(one)]
            elif not name:  # the module is imported
                statements = [one for one in statements if not _names(one) or _is_registered(one)]
            for statement in statements:
                self._follow(module, statement)

    def made(self, module: Module, nodes: Iterator[ast.AST]) -> Iterator[tuple[str, bool]]:
        """Yield what some nodes of a module are or make: of which framework, and whether a kernel."""
        for node in nodes:
            if isinstance(node, ast.Call):
                yield from marks(module, node, self.modules)
            for mark in getattr(node, "decorator_list", ()):
                yield from marks(module, mark, self.modules)

    def _guards_of(self, module: Module) -> Guards:
        return Guards(self._definitions, lambda node: self._own_name(module, dotted(node)))

    def _own_name(self, module: Module, name: str) -> str:
        """Return a name as it is outside of its module, also where the module defines it."""
        first = name.partition(".")[0]
        return f"{module.name}.{name}" if first in self._parts[module.name] else module.whole(name)

    def _definitions(self, whole: str) -> list[tuple[Guards, ast.AST]]:
        place, _, name = whole.rpartition(".")
        module = self.modules.get(place)
        if module is None or not name:
            return []
        if name in module.origins and name not in self._parts[module.name] and module.origins[name] != whole:
            return self._definitions(module.origins[name])
        return [(self._guards[module.name], one) for one in self._parts[module.name].get(name, ())]

    def _live_at_the_top(self, module: Module) -> list[ast.stmt]:
        """Return the statements of a module that are run as it is imported, also those below conditions."""
        guards, found = self._guards[module.name], []

        def enter(node: ast.AST) -> None:
            children = iter(guards.children(node))
            for child in children:
                if isinstance(child, ast.stmt) and not _has_blocks(child):
                    found.append(child)
                elif isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                    enter(child)

        enter(module.tree)
        return found

    def _enter(self, module: Module, name: str) -> None:
        if (module.name, name) not in self._seen:
            self._seen.add((module.name, name))
            self._next.append((module, name))

    def _follow(self, module: Module, statement: ast.stmt) -> None:
        nodes = [*self._guards[module.name].live(statement)]
        self.found.update(self.made(module, iter(nodes)))
        inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            for _, whole in module.imported(node):
                self._import(whole)
            if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in inner and (name := dotted(node)):
                self._use(module, name)
            if isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in _DYNAMIC and node.args:
                self._import_by_name(node.args[0])

    def _import_by_name(self, name: ast.expr) -> None:
        if not isinstance(name, ast.Constant):
            for module in self._own:
                self._enter(module, "*")
        elif (named := self.modules.get(str(name.value))) is not None:
            self._enter(named, "*")

    def _import(self, whole: str) -> None:
        """Enter a module, those that it lies in, and all names of it if the statement takes all."""
        words = whole.split(".")
        for count in range(1, len(words) + 1):
            if (module := self.modules.get(".".join(words[:count]))) is not None:
                self._enter(module, "")

    def _use(self, module: Module, name: str) -> None:
        """Enter what a name stands for."""
        first = name.partition(".")[0]
        if first in self._parts[module.name]:
            self._enter(module, first)
        if first in module.origins:
            self._find(module.whole(name))
        for star in module.stars:
            self._find(f"{star}.{first}")

    def _find(self, whole: str, depth: int = 8) -> None:
        words = whole.split(".")
        count = next((n for n in range(len(words), 0, -1) if ".".join(words[:n]) in self.modules), 0)
        if not count or not depth:
            return
        module, rest = self.modules[".".join(words[:count])], words[count:]
        if not rest:
            self._enter(module, "*")  # a module that is given to somebody: any part of it may be used
            return
        self._enter(module, "")
        if rest[0] in self._parts[module.name]:
            self._enter(module, rest[0])
        elif rest[0] in module.origins:
            self._find(".".join([module.origins[rest[0]], *rest[1:]]), depth - 1)
        elif "__getattr__" in self._parts[module.name]:  # it imports its names as they are asked for
            for one in self._own:
                self._enter(one, "*")
        for star in module.stars:
            self._find(".".join([star, *rest]), depth - 1)


def _has_blocks(node: ast.stmt) -> bool:
    return isinstance(node, (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.Match))


def _names(node: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return {one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)}


def _is_registered(node: ast.stmt) -> bool:
    return any(_REGISTERS.search(ast.unparse(mark)) for mark in getattr(node, "decorator_list", ()))


def _parts(module: Module) -> dict[str, list[ast.AST]]:
    """Return the statements that define each name of a module, outside of functions and classes."""
    parts: dict[str, list[ast.AST]] = {}

    def enter(body: list[ast.AST]) -> None:
        for node in body:
            if isinstance(node, ast.stmt) and not _has_blocks(node):
                for name in _names(node):
                    parts.setdefault(name, []).append(node)
            elif isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
                enter([*ast.iter_child_nodes(node)])

    enter(list(module.tree.body))
    return parts
