"""Read the Python files of a repository without importing them: what they import, and which kernels they hold."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base.syntax import parsed

_SKIPPED = {"build", "dist", "node_modules", "site-packages", "__pycache__", "third_party", "venv", "env"}
_MOST = 20_000  # files: a repository with more is read in part
_KERNEL_MARKS = {"jit", "autotune", "heuristics"}
CUDA_SUFFIXES = (".cu", ".cuh", ".hip")


@dataclass(frozen=True)
class Source:
    """A Python file: what it imports at its top level and anywhere, and its functions that are Triton kernels."""

    path: Path
    always: frozenset[str]  # imported at the top level, so that the file does not work without it
    imports: frozenset[str]
    kernels: tuple[str, ...]


def files_of(root: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files with these suffixes, in a fixed order; hidden folders and those of builds are left out."""
    count = 0
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED and not name.startswith(".") and "egg-info" not in name
        )
        for name in sorted(names):
            if name.endswith(suffixes):
                count += 1
                if count > _MOST:
                    return
                yield Path(folder, name)


def read_sources(paths: Iterable[Path]) -> list[Source]:
    """Read the files; one that is not Python is left out."""
    sources = []
    for path in paths:
        try:
            tree = parsed(path.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        names = frozenset(name for node in ast.walk(tree) for name in _imported(node))
        top = frozenset(name for node in tree.body for name in _imported(node))
        sources.append(Source(path, top, names, tuple(_kernels(tree, imported="triton" in names))))
    return sources


def is_test(path: Path) -> bool:
    """Return whether pytest takes a file for tests, by its name."""
    return path.suffix == ".py" and (path.name.startswith("test_") or path.stem.endswith("_test"))


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the distributions' top modules that a statement imports; a relative import is of the package itself."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def _kernels(tree: ast.Module, *, imported: bool) -> Iterator[str]:
    """Yield the functions that are marked with ``triton.jit``, also under another name of ``jit``.

    ``imported`` is whether the file imports Triton itself. A file can also have ``triton`` from a module of its
    package, which imports it where it is installed. Then only marks that begin with ``triton.`` count.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_is_kernel(mark, imported) for mark in node.decorator_list):
            yield node.name


def _is_kernel(mark: ast.expr, imported: bool) -> bool:
    words = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark).split(".")
    return words[-1] in _KERNEL_MARKS and (imported or words[0] == "triton")
