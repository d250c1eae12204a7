"""Read the modules of a repository's package and tests: what each imports, and what its names stand for."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.adopt.repository import Repository
from kernel_matrix.base.syntax import parsed

_KERNEL_MARKS = {"jit", "autotune", "heuristics"}
_OF_PALLAS = {"pallas_call", "kernel", "core_map", "emit_pipeline"}
_OF_NUMBA = {"njit", "jit", "vectorize", "guvectorize", "stencil", "cfunc", "generated_jit", "jitclass"}


@dataclass
class Module:
    """A file: the whole names of what it imports, by the names that it has for them, and the modules of each star."""

    path: Path
    name: str
    text: str
    tree: ast.Module
    origins: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)  # at the top level
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = {node.name: node for node in self.tree.body if isinstance(node, ast.FunctionDef)}
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        for node in ast.walk(self.tree):
            for name, origin in self.imported(node):
                if name == "*":
                    self.stars.append(origin.removesuffix(".*"))
                elif name:
                    self.origins.setdefault(name, origin)

    def imported(self, node: ast.AST) -> Iterator[tuple[str, str]]:
        """Yield the names that a statement imports, each with the whole name of what it stands for."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
                yield "", alias.name
        elif isinstance(node, ast.ImportFrom):
            package = self.name.split(".") if self.path.name == "__init__.py" else self.name.split(".")[:-1]
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield alias.asname or alias.name, f"{module}.{alias.name}"

    def where(self, root: Path, node: ast.stmt) -> str:
        """Return the place of a statement, as a person looks for it."""
        return f"{self.path.relative_to(root).as_posix()}:{node.lineno}"

    def whole(self, dotted: str) -> str:
        """Return a name as it is outside of the file: ``nb.cuda.jit`` is ``numba.cuda.jit``."""
        first, dot, rest = dotted.partition(".")
        return f"{self.origins.get(first, first)}{dot}{rest}"


def read(repository: Repository, paths: Iterable[Path]) -> Iterator[Module]:
    """Yield the modules of these files; one that is not Python is left out."""
    base, folder = repository.root / repository.source, repository.root / repository.folder
    for path in paths:
        try:
            content = path.read_bytes()
            tree = parsed(content)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if path.is_relative_to(folder):
            relative = Path(repository.module, path.relative_to(folder)).with_suffix("")
        else:
            relative = path.relative_to(base if path.is_relative_to(base) else repository.root).with_suffix("")
        name = ".".join(part for part in relative.parts if part != "__init__")
        yield Module(path, name, content.decode("utf-8", errors="replace"), tree)


def dotted(node: ast.AST) -> str:
    """Return the name that an expression is, with dots; an empty text if it is none."""
    words: list[str] = []
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(words)]) if isinstance(node, ast.Name) else ""


def marks(module: Module, node: ast.AST, modules: Mapping[str, Module], depth: int = 3) -> Iterator[tuple[str, bool]]:
    """Yield of which framework a decorator or a call makes code, and whether that is a kernel: else it is for the CPU.

    A module can have ``jit`` from another of the package. Then what it stands for there counts.
    """
    call = node if isinstance(node, ast.Call) else None
    whole = module.whole(dotted(call.func if call else node))
    words = whole.split(".")
    place, _, name = whole.rpartition(".")
    target = next((one.value for one in call.keywords if one.arg == "target"), None) if call else None
    if words[-1] in _OF_PALLAS and (words[-1] == "pallas_call" or "pallas" in words):
        yield "Pallas", True
    elif words[-2:] == ["cuda", "jit"] or (isinstance(target, ast.Constant) and target.value == "cuda"):
        yield "Numba", True
    elif words[-1] == "njit" or (words[0] == "numba" and words[-1] in _OF_NUMBA):
        yield "Numba", False
    elif words[-1] in _KERNEL_MARKS and "triton" in words:
        yield "Triton", True
    elif depth and place in modules:
        other = modules[place]
        if name in other.origins:
            yield from marks(other, ast.Name(name), modules, depth - 1)
        for one in other.tree.body:
            if isinstance(one, ast.Assign) and any(isinstance(to, ast.Name) and to.id == name for to in one.targets):
                yield from marks(other, one.value, modules, depth - 1)
