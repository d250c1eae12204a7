"""Decide whether code launches a kernel in Triton: ``kernel[grid](...)`` of what a decorator of Triton makes."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kernel_matrix.adopt.modules import Module, dotted, marks

_Given = dict[str, list[ast.AST]]


class Launching:
    """The kernels of a package's modules, by all their names."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self._modules = {module.name: module for module in modules}
        self._given = {module.name: _given(module.tree) for module in self._modules.values()}
        self._known: dict[tuple[str, str], bool] = {}  # by the module and the name

    def launches(self, module: Module, node: ast.AST) -> bool:
        """Return whether a function of a module launches a kernel, or gives one to what launches it."""
        inside = _given(node)
        for call in (one for one in ast.walk(node) if isinstance(one, ast.Call)):
            given = [one for one in (*call.args, *(word.value for word in call.keywords)) if dotted(one)]
            called = [call.func.value] if isinstance(call.func, ast.Subscript) else []
            if any(self._is_kernel(module, one, inside) for one in (*called, *given)):
                return True
        return False

    def _is_kernel(self, module: Module, value: ast.AST, inside: _Given) -> bool:
        """Return whether an expression is a kernel, or has one; ``inside`` are the names of a function itself."""
        if isinstance(value, ast.FunctionDef):
            return any(("Triton", True) in marks(module, mark, self._modules) for mark in value.decorator_list)
        if isinstance(value, ast.Call) and ("Triton", True) in marks(module, value, self._modules):
            return True
        if not (name := dotted(value)):  # a choice, a table of kernels, what a function makes of one
            parts = (one for one in ast.iter_child_nodes(value) if isinstance(one, ast.expr))
            return any(self._is_kernel(module, one, inside) for one in parts)
        if name in inside:
            others = {other: values for other, values in inside.items() if other != name}
            return any(self._is_kernel(module, one, others) for one in inside[name])
        return self._is_name_of_kernel(module, name)

    def _is_name_of_kernel(self, module: Module, name: str) -> bool:
        """Return whether a name is one of a kernel in a module, outside of its functions."""
        key = (module.name, name)
        if key not in self._known:
            self._known[key] = False  # where the name leads back to itself
            place, _, last = module.whole(name).rpartition(".")
            others = [self._modules[place]] if place in self._modules else []
            others += [self._modules[star] for star in module.stars if star in self._modules and "." not in name]
            self._known[key] = any(
                self._is_kernel(module, one, {}) for one in self._given[module.name].get(name, ())
            ) or any(self._is_name_of_kernel(other, last) for other in others)
        return self._known[key]


def _given(node: ast.AST) -> _Given:
    """Return the names that some code gives, also in its classes and functions, each with what it is given to."""
    found: _Given = {}
    for one in ast.walk(node):
        if isinstance(one, ast.FunctionDef):
            found.setdefault(one.name, []).append(one)
        elif isinstance(one, (ast.Assign, ast.AnnAssign)) and one.value is not None:
            for target in one.targets if isinstance(one, ast.Assign) else [one.target]:
                found.setdefault(dotted(target), []).append(one.value)
        elif isinstance(one, (ast.For, ast.comprehension)):
            found.setdefault(dotted(one.target), []).append(one.iter)
    found.pop("", None)
    return found
