"""Find out how a repository is laid out: its build systems, the project in a folder below, and its folders of tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from kernel_matrix.adopt.collected import content_of

# The file by which a build system is known, at the top of a repository.
_SYSTEMS = {
    "pyproject.toml": "Python",
    "setup.py": "Python",
    "setup.cfg": "Python",
    "CMakeLists.txt": "CMake",
    "meson.build": "Meson",
    "Cargo.toml": "Cargo",
    "MODULE.bazel": "Bazel",
    "WORKSPACE": "Bazel",
    "WORKSPACE.bazel": "Bazel",
    "xmake.lua": "xmake",
    "build.zig": "Zig",
    "Makefile": "make",
    "configure.ac": "autotools",
}
_PROJECT = ("pyproject.toml", "setup.cfg", "setup.py")
_TESTS = re.compile(r"(unit_?|integration_?|py_?)?tests?(ing|suite)?")
ASIDE = {"docs", "doc", "examples", "example", "benchmarks", "benchmark", "bench", "scripts", "tools", "dev", "ci"}


def systems_of(root: Path) -> tuple[str, ...]:
    """Return the build systems that a repository has files of, at its top."""
    return tuple(dict.fromkeys(system for name, system in _SYSTEMS.items() if (root / name).is_file()))


def project_folders(root: Path, paths: Sequence[Path]) -> list[Path]:
    """Return the folders of Python projects, where the top of the repository is none: the one with most files first."""
    if any((root / name).is_file() for name in _PROJECT):
        return []
    found = dict.fromkeys(path.parent for name in _PROJECT for path in root.glob(f"*/{name}"))
    found |= dict.fromkeys(path.parent for name in _PROJECT for path in root.glob(f"*/*/{name}"))
    outer = [one for one in found if not any(one != other and one.is_relative_to(other) for other in found)]
    sizes = {one: sum(path.is_relative_to(one) for path in paths) for one in outer}
    return sorted(outer, key=lambda one: (not ASIDE.isdisjoint(one.relative_to(root).parts), -sizes[one], one))


class Tests(NamedTuple):
    """A folder of tests, the number of its files, and whether it belongs to another project that lies in it."""

    folder: str
    files: int
    of_another: bool


def test_folders(root: Path, tests: Iterable[Path], module: str, inside: Path) -> list[Tests]:
    """Return the folders of tests: the one with most tests of the package first.

    A test is of the package if it imports it, or lies in its folder ``inside``, where that is not the whole repository.
    What lies in folders of examples, scripts and the like comes last; of another project are tests that lie in its
    folder, where none of them is of the package.
    """
    imports = re.compile(rf"^\s*(from|import)\s+{re.escape(module)}\b".encode(), re.MULTILINE)
    sizes: dict[str, list[int]] = {}
    for path in tests:
        size = sizes.setdefault(_folder_of(path.relative_to(root)), [0, 0])
        size[0] += (inside != root and path.is_relative_to(inside)) or bool(imports.search(content_of(path)))
        size[1] += 1
    order = sorted(sizes, key=lambda name: (_is_aside(name), *(-size for size in sizes[name]), len(name), name))
    files = (*_PROJECT, "CMakeLists.txt")
    return [
        Tests(name, sizes[name][1], not sizes[name][0] and is_of_another(root, Path(name), files)) for name in order
    ]


def pattern_of(names: Sequence[str]) -> str:
    """Return what these names of files have in common, as pytest's ``python_files`` has it; else the names."""
    parts = [name.removesuffix(".py").split("_") for name in names]
    begins, ends = {one[0] for one in parts}, {one[-1] for one in parts}
    if min(map(len, parts)) > 1 and len(ends) == 1 and "test" in min(ends).lower():
        return f"*_{min(ends)}.py"
    if min(map(len, parts)) > 1 and len(begins) == 1:
        return f"{min(begins)}_*.py"
    return " ".join(sorted({*names}))


def is_of_another(root: Path, folder: Path, files: Iterable[str] = _PROJECT) -> bool:
    """Return whether a folder lies in a project that is another than the repository's own, such as a copied library.

    ``files`` are the names of files that make a folder a project.
    """
    is_own = any((root / file).is_file() for file in _PROJECT)
    below = (root / part for part in (folder, *folder.parents) if part != Path())
    return is_own and any((part / file).is_file() for part in below for file in files)


def _folder_of(path: Path) -> str:
    """Return the folder of tests that a file belongs to: the outermost one of such a name, else the outermost one."""
    parts = path.parts[:-1]
    named = next((number for number, part in enumerate(parts, 1) if _TESTS.fullmatch(part.lower())), 1)
    return "/".join(parts[:named]) or "."


def _is_aside(name: str) -> bool:
    return not ASIDE.isdisjoint(name.split("/"))
