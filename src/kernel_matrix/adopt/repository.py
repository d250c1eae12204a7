"""Look at a repository: which package it holds, where its tests are, and which toolchains its kernels use.

Its Python files are read without being imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from kernel_matrix.adopt import layout, project_file, workspace
from kernel_matrix.adopt.collected import defines_tests, has_tests, own_rules
from kernel_matrix.adopt.compiled import UNPACKED
from kernel_matrix.adopt.package_map import likeness
from kernel_matrix.adopt.project_file import ProjectFile
from kernel_matrix.adopt.sources import CUDA_SUFFIXES, Source, collected, files_of, imported_by, is_test, read_sources
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.words import some

PYTHONS = ("3.11", "3.12", "3.13")
# The modules that write kernels or run them, by the name that people know; the first of them names the environment.
TOOLCHAINS = {
    "triton": "Triton",
    "tilelang": "TileLang",
    "tvm": "TVM",
    "warp": "Warp",
    "taichi": "Taichi",
    "numba": "Numba",
    "cutlass": "CUTLASS DSL",
    "cupy": "CuPy",
    "jax": "JAX",
    "torch": "PyTorch",
}
_NO_PACKAGE = {"tests", "test", "testing", *layout.ASIDE}


@dataclass(frozen=True)
class Repository:
    """The parts of a repository. ``suite`` is None if no test was seen; ``module`` is empty if no package was."""

    root: Path
    project: ProjectFile
    module: str
    source: str
    folder: str  # of the package's files
    suite: str | None
    own: tuple[Source, ...]  # the files of the package
    tests: tuple[Source, ...]  # the files of the suite
    cuda: tuple[Path, ...]  # sources in CUDA C++ or HIP
    python: str  # the oldest Python that the harness and the package both work with
    not_taken: tuple[tuple[str, int], ...] = ()  # other folders of tests, with the number of their files
    programs: tuple[str, ...] = ()  # files with the name of a test that have none, and are run by hand
    others: tuple[str, ...] = ()  # folders of other Python projects, where several lie in the repository

    @property
    def toolchains(self) -> tuple[str, ...]:
        """The toolchains that the package or its tests import."""
        imported = {name for source in (*self.own, *self.tests) for name in source.imports}
        return tuple(name for name in TOOLCHAINS if name in imported)

    @property
    def kernels(self) -> tuple[str, ...]:
        """The functions of the package that are Triton kernels."""
        return tuple(name for source in self.own for name in source.kernels)

    @property
    def test_files(self) -> tuple[Path, ...]:
        """The files that pytest takes for tests, from the suite's folder."""
        programs = {self.root / name for name in self.programs}
        named = (source.path for source in self.tests if is_test(source.path, self.project.python_files))
        return tuple(path for path in named if path not in programs)


def look(root: Path, suite: str | None = None) -> Repository:
    """Look at a folder. ``suite`` is the folder of the tests, where a person has named it.

    Raises:
        UserError: there is nothing to test, or this Python is too old or too new for the package.
    """
    if not root.is_dir():
        raise UserError(f"{root}: there is no such folder. Name the repository's root: --root FOLDER.")
    paths = list(files_of(root, (".py",)))
    projects = layout.project_folders(root, paths)
    project = project_file.read(root) if not projects else project_file.below(root, projects[0])
    module, source, inside = _package(root, paths, project)
    _demand_no_member(root, inside)
    if project.compiled.ctest or (project.compiled.commands and not module):
        module, source, inside = project.name, ".", root / project.name
    project = replace(project, compiled=project.compiled.onto(source))
    named = [suite] if suite else project.test_folders
    rules = own_rules(root, (path for path in paths if path.name == "conftest.py"))
    tests = {path: has_tests(path, rules) for path in paths if is_test(path, project.python_files)}
    ordered = layout.test_folders(root, (path for path in tests if tests[path]), module, inside)
    files = [path for path in tests if suite or tests[path]]
    folder = project.compiled.ctest or _suite(root, files, ordered, named, project if suite else None)
    own, test_sources = _sources(root, paths, inside, folder, project)
    repository = Repository(
        *(root, project, module, source, inside.relative_to(root).as_posix(), folder),
        *(own if module else (), test_sources, tuple(files_of(root, CUDA_SUFFIXES))),
        python=_python(project.python),
        not_taken=tuple((one.folder, one.files) for one in ordered if not _is_below(one.folder, folder)),
        programs=tuple(
            path.relative_to(root).as_posix() for path, is_one in tests.items() if not is_one and is_test(path)
        ),
        others=tuple(path.relative_to(root).as_posix() for path in projects[1:]),
    )
    _demand_something(repository)
    return repository


def _sources(
    root: Path, paths: Sequence[Path], inside: Path, folder: str | None, project: ProjectFile
) -> tuple[tuple[Source, ...], tuple[Source, ...]]:
    """Return the files of the package, and those of the tests: what pytest collects, and what these import."""
    tests = collected(root, folder, paths, project.python_files)
    taken = {source.path for source in tests}
    suite = root / (folder or "")
    of_package = [path for path in paths if path.is_relative_to(inside) or path == inside.with_suffix(".py")]
    around = set(of_package) if inside.is_relative_to(suite) else set()
    beside = [path for path in paths if folder and path.is_relative_to(suite) and path not in taken | around]
    own = read_sources(path for path in of_package if path not in taken.union(beside))
    return tuple(own), (*tests, *imported_by(tests, read_sources(beside)))


def _python(text: str) -> str:
    """Return the oldest Python that the harness and the package work with.

    Raises:
        UserError: the package does not work with the Python of the harness.
    """
    try:
        wanted = SpecifierSet(text)
    except InvalidSpecifier:
        wanted = SpecifierSet()
    running = ".".join(map(str, sys.version_info[:3]))
    if running not in wanted:
        raise UserError(f"the package asks for Python {text}, and this is {running}. {_which(wanted)}")
    return next((version for version in PYTHONS if f"{version}.99" in wanted), PYTHONS[-1])


def _which(wanted: SpecifierSet) -> str:
    """Say what a person can do whose Python the package does not work with."""
    if known := [version for version in PYTHONS if f"{version}.99" in wanted or f"{version}.0" in wanted]:
        return f"Install the harness with Python {' or '.join(known)}."
    return f"The harness works with Python {', '.join(PYTHONS)}, so it cannot test this package: no Python is for both."


def _package(root: Path, paths: Sequence[Path], project: ProjectFile) -> tuple[str, str, Path]:
    """Return the module of the package, the folder that has to be on the import path, and the folder of its files.

    It is the one that the project's files name, else the one that has its name, else the folder with most files.
    """
    folders = {path.relative_to(root).parent for path in paths}
    copied = {root / folder for folder in folders if project.name and layout.is_of_another(root, folder)}
    for one in project.packages.placed[:1]:
        folder = PurePosixPath(one.folder)
        return one.module, UNPACKED if one.is_renamed else folder.parent.as_posix(), root / folder
    usual = {name for name in ("src", "python") if not (root / name / "__init__.py").exists()}
    sources = sorted({*project.packages.sources, *usual} - {"."}, key=len, reverse=True)
    sizes: dict[tuple[str, str], int] = {}
    for path in paths:
        source, rest = _split(path.relative_to(root), sources)
        if len(rest) > 1 and rest[0] not in _NO_PACKAGE and rest[0].isidentifier():
            if path.parent not in copied or likeness(rest[0], project.name):
                sizes[rest[0], source] = sizes.get((rest[0], source), 0) + 1
        elif len(rest) == 1 and rest[0] not in ("setup.py", "conftest.py", "noxfile.py") and not is_test(path):
            sizes.setdefault((path.stem, source), 0)
    module, source = max(sizes, key=lambda key: (*_likely(key, project), sizes[key], key[0]), default=("", "."))
    return module, source, root / source / module


def _likely(key: tuple[str, str], project: ProjectFile) -> tuple[bool, int, bool]:
    """Return how likely a module in a folder is the package of a project, by its own words."""
    module, source = key
    return module in project.packages.names, likeness(module, project.name), source in project.packages.sources


def _demand_something(repository: Repository) -> None:
    """Check that there is something to test.

    Raises:
        UserError: there is no package, or neither a test nor a kernel of Triton.
    """
    root, programs = repository.root, repository.programs
    if not repository.module:
        raise UserError(f"{root}: there is no Python package here. Name the folder of one: --root FOLDER.")
    if repository.suite is None and not repository.kernels:
        named = " or ".join(repository.project.python_files)
        found = f"pytest finds no test in {', '.join(programs)}" if programs else f"no {named}"
        remedy = passed_over(root, root, repository.project)
        raise UserError(
            f"{root}: there is no file of tests ({found}) and no Triton kernel, so there is nothing to test. "
            f"{remedy or 'Write tests/test_one.py, or name the folder of the tests: --suite FOLDER.'}"
        )


def passed_over(root: Path, folder: Path, project: ProjectFile) -> str:
    """Return which files have tests and no name of a test, and what makes pytest take them; empty if none is so."""
    unnamed = (path for path in files_of(root, (".py",)) if not is_test(path, project.python_files))
    found = [path for path in unnamed if path.is_relative_to(folder) and defines_tests(path)]
    if not found:
        return ""
    return (
        f"There are tests in {some([path.relative_to(root).as_posix() for path in found])}, and pytest takes no file "
        f"of such a name until its settings say python_files = {layout.pattern_of([path.name for path in found])}"
    )


def _demand_no_member(root: Path, inside: Path) -> None:
    """Check that the package of a workspace's root is its own.

    Raises:
        UserError: what looks like a package holds the members.
    """
    members = list(workspace.members_of(root).values())
    if any(path.is_relative_to(inside) for path in members):
        named = " or ".join(f"--root {path.relative_to(root).as_posix()}" for path in members)
        raise UserError(f"{root}: this is a workspace, and its packages are its members. Name one: {named}.")


def _split(path: Path, sources: Iterable[str]) -> tuple[str, tuple[str, ...]]:
    """Return the folder on the import path that a file lies in, and the rest of its path."""
    source = next((name for name in sources if path.is_relative_to(name)), ".")
    return source, path.relative_to(source).parts


def _suite(
    root: Path,
    tests: Sequence[Path],
    ordered: Sequence[layout.Tests],
    configured: Iterable[str],
    named: ProjectFile | None,
) -> str | None:
    """Return the folder of the tests: the configured one if it has any, else the first in the order.

    ``named`` is the project whose folder a person has named; None where the repository's settings did.

    Raises:
        UserError: the folder that a person has named has no tests.
    """
    for name in configured:
        folder = (root / name).resolve()
        if folder.is_dir() and any(path.resolve().is_relative_to(folder) for path in tests):
            return Path(name).as_posix()
        if named:
            patterns, remedy = " or ".join(named.python_files), passed_over(root, folder, named)
            raise UserError(
                f"--suite {name}: there is no file of tests ({patterns}) in this folder of {root}. {remedy}".rstrip()
            )
    return next((one.folder for one in ordered if not one.of_another), None)


def _is_below(name: str, folder: str | None) -> bool:
    """Return whether the tests of a folder are run with those of another."""
    return folder is not None and (folder == "." or PurePosixPath(name).is_relative_to(folder))
