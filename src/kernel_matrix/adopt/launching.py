"""Decide whether code launches a kernel in Triton: ``kernel[grid](...)`` of what a decorator of Triton makes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from kernel_matrix.adopt.modules import Module, dotted, marks

_DEPTH = 6  # names of names


class Launching:
    """The kernels of a package's modules, by all their names."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = {module.name: module for module in modules}
        self._given = {module.name: [*_given(module.tree)] for module in self._modules.values()}

    def launches(self, module: Module, node: ast.AST) -> bool:
        """Return whether a function of a module launches a kernel."""
        return any(
            isinstance(one, ast.Call)
            and isinstance(one.func, ast.Subscript)
            and self._is_kernel(module, one.func.value, node, _DEPTH)
            for one in ast.walk(node)
        )

    def _is_kernel(self, module: Module, value: ast.AST, inside: ast.AST | None, depth: int) -> bool:
        """Return whether an expression is a kernel, or one of several kernels."""
        if depth == 0:
            return False
        if isinstance(value, ast.Call) and ("Triton", True) in marks(module, value, self._modules):
            return True
        if not (name := dotted(value)):  # a choice, a table of kernels, what a function makes of one
            parts = ast.iter_child_nodes(value)
            return any(isinstance(one, ast.expr) and self._is_kernel(module, one, inside, depth - 1) for one in parts)
        if inside is not None and self._is_given(module, name, _given(inside), inside, depth):
            return True
        if self._is_given(module, name, self._given[module.name], None, depth):
            return True
        place, _, last = module.whole(name).rpartition(".")
        others = [self._modules[place]] if place in self._modules else []
        others += [self._modules[star] for star in module.stars if star in self._modules and "." not in name]
        return any(self._is_kernel(one, ast.Name(last), None, depth - 1) for one in others)

    def _is_given(
        self, module: Module, name: str, given: Iterable[tuple[str, ast.AST]], inside: ast.AST | None, depth: int
    ) -> bool:
        """Return whether a name is given to a kernel: a function with a mark of Triton, or a value that is one."""
        for own, what in given:
            if own != name:
                continue
            if not isinstance(what, ast.FunctionDef):
                if self._is_kernel(module, what, inside, depth - 1):
                    return True
            elif any(
                framework == "Triton"
                for mark in what.decorator_list
                for framework, _ in marks(module, mark, self._modules)
            ):
                return True
        return False


def _given(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the names that some code gives, also in classes and functions, each with what it is given to."""
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef):
            yield one.name, one
        elif isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            yield from ((dotted(target), one.value) for target in targets if dotted(target))
        elif isinstance(one, (ast.For, ast.comprehension)) and isinstance(one.target, ast.Name):
            yield one.target.id, one.iter
