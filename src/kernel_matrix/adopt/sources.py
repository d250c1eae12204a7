"""Read the Python files of a repository, without an import: what each imports, asks for, and has of kernels."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.adopt.project_file import PYTHON_FILES
from kernel_matrix.base.syntax import parsed

# Where `init` writes. No build system takes a folder with a dot for a package; git often ignores "*.d".
OWN = "kernel-matrix.files"
_SKIPPED = {"build", "dist", "node_modules", "site-packages", "__pycache__", "third_party", "venv", "env", OWN}
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
    asked: frozenset[str] = frozenset()  # what it asks for and does without
    named: frozenset[str] = frozenset()  # every word of the names that it imports, and of paths of Python files


def files_of(root: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files with these suffixes, in a fixed order; hidden folders and folders of builds are left out."""
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
        nodes = [*_run(tree)]
        names = frozenset(name for node in nodes for name in _imported(node))
        top = frozenset(name for node in tree.body for name in _imported(node))
        kernels = tuple(_kernels(tree, imported="triton" in names))
        asked = frozenset(name for node in nodes for name in _asked(node))
        sources.append(Source(path, top, names, kernels, asked, asked.union(_words(nodes))))
    return sources


def is_test(path: Path, patterns: Sequence[str] = PYTHON_FILES) -> bool:
    """Return whether pytest takes a file for tests, by its name."""
    return path.suffix == ".py" and any(path.match(pattern) for pattern in patterns)


def collected(root: Path, folder: str | None, paths: Sequence[Path], patterns: Sequence[str]) -> list[Source]:
    """Return the files that pytest imports by itself as it collects the tests of a folder."""
    if not folder:
        return []
    suite = root / folder
    tests = [path for path in paths if path.is_relative_to(suite) and is_test(path, patterns)]
    around = {above for path in tests for above in path.relative_to(suite).parents}
    found = [
        path
        for path in paths
        if (path.name == "__init__.py" and path.is_relative_to(suite) and path.parent.relative_to(suite) in around)
        or (path.name == "conftest.py" and (path.is_relative_to(suite) or suite.is_relative_to(path.parent)))
    ]
    return read_sources(dict.fromkeys((*found, *tests)))


def imported_by(sources: Sequence[Source], others: Sequence[Source]) -> list[Source]:
    """Return those of other files whose names stand in imports of some files, or of those that they import."""
    found: list[Source] = []
    left, names = list(others), {name for source in sources for name in source.named}
    while taken := [
        one for one in left if (one.path.parent.name if one.path.stem == "__init__" else one.path.stem) in names
    ]:
        found += taken
        left = [one for one in left if one not in taken]
        names = {name for source in taken for name in source.named}
    return found


def _imported(node: ast.AST) -> Iterator[str]:
    """Yield the distributions' top modules that a statement imports; a relative import is of the package itself."""
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a file, except those that are for a program that it is too, or for a type checker."""
    yield node
    is_left = isinstance(node, ast.If) and re.search(r"__name__ ==|TYPE_CHECKING$", ast.unparse(node.test))
    for child in node.orelse if is_left else ast.iter_child_nodes(node):  # type: ignore[attr-defined]
        yield from _run(child)


_ASKING = {"importorskip", "find_spec", "import_module", "__import__", "import_optional_dependency", "skip_if_no"}
_NOT_THERE = re.compile(r"ImportError|ModuleNotFoundError|Exception")


def _asked(node: ast.AST) -> Iterator[str]:
    """Yield the top modules that a statement asks for and does without: by a call, or where it catches the error."""
    if isinstance(node, ast.Call) and _ASKING & {getattr(node.func, "attr", ""), getattr(node.func, "id", "")}:
        for argument in node.args[:1]:
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value.partition(".")[0]
    if isinstance(node, ast.Try) and any(
        one.type is None or _NOT_THERE.search(ast.unparse(one.type)) for one in node.handlers
    ):
        yield from (name for one in node.body for inner in ast.walk(one) for name in _imported(inner))


_PLACE = re.compile(r"(?:[\w-]+[./])*?([\w-]+)(?:\.py)?")


def _words(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield every word of the names that a file imports, and the last of texts that can be a module or its path."""
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (getattr(node, "module", None) or "").split(".")
            yield from (word for alias in node.names for word in alias.name.split("."))
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytest_plugins":
            yield from (str(one.value) for one in ast.walk(node) if isinstance(one, ast.Constant))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = _PLACE.fullmatch(node.value)
            yield from (match[1],) if match and match[1] != node.value else ()


def _kernels(tree: ast.Module, *, imported: bool) -> Iterator[str]:
    """Yield the functions that are marked with ``triton.jit``, also under another name of ``jit``.

    ``imported`` is whether the file imports Triton itself. A file can also have ``triton`` from a module of its
    package, which imports it where it is installed. Then only marks that begin with ``triton.`` count.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            calls = [mark.func if isinstance(mark, ast.Call) else mark for mark in node.decorator_list]
            marks = [ast.unparse(mark).split(".") for mark in calls]
            if any(words[-1] in _KERNEL_MARKS and (imported or words[0] == "triton") for words in marks):
                yield node.name
