"""Find out how a repository is laid out: its build systems, the project in a folder below, and its folders of tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

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


def test_folders(root: Path, tests: Iterable[Path], module: str, source: str) -> list[tuple[str, int]]:
    """Return the folders of tests with the number of their files: the one with most tests of the package first.

    A test is of the package if it imports it, or lies in it. What lies in folders of examples, scripts and the like
    comes last.
    """
    imports = re.compile(rf"^\s*(from|import)\s+{re.escape(module)}\b".encode(), re.MULTILINE)
    inside = root / source / module
    sizes: dict[str, list[int]] = {}
    for path in tests:
        size = sizes.setdefault(_folder_of(path.relative_to(root)), [0, 0])
        size[0] += path.is_relative_to(inside) or bool(imports.search(_content(path)))
        size[1] += 1
    order = sorted(sizes, key=lambda name: (_is_aside(name), *(-size for size in sizes[name]), len(name), name))
    return [(name, sizes[name][1]) for name in order]


def _folder_of(path: Path) -> str:
    """Return the folder of tests that a file belongs to: the outermost one of such a name, else the outermost one."""
    parts = path.parts[:-1]
    named = next((number for number, part in enumerate(parts, 1) if _TESTS.fullmatch(part.lower())), 1)
    return "/".join(parts[:named]) or "."


def _is_aside(name: str) -> bool:
    return not ASIDE.isdisjoint(name.split("/"))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
