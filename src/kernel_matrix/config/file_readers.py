"""Decide which files a job reads, and which toolchains and platforms changed files concern. Pure functions.

A job reads the files that :func:`readers_of` finds, and no others:

- of the harness the rooms ``job`` and ``kit``, which it imports, and the modules of ``run`` that make its environment,
  write its command with the description of its cases, and keep the machine quiet while it measures. The rest of ``run``
  follows a job from outside (journal, progress, schedule, records), and no number depends on it;
- the file of its platform's vendor;
- the package: its source, with the backends of the job's toolchain alone;
- the suite, and the settings of pytest in the folders above it;
- in a container, what its image is made from.

Of ``matrix.yaml`` it reads parts (:mod:`kernel_matrix.config.reads`), and its lock stands in its facts.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import PurePosixPath
from typing import Literal, NamedTuple

from kernel_matrix.config.locks import names_of
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.suite import is_suite
from kernel_matrix.vendors.registry import vendor_names

Part = Literal["harness", "package", "suite", "image"]
CONTAINER = "container"  # the executor whose jobs read what their image is made from
MADE_FROM_LOCKS = frozenset({CONTAINER, "venv"})  # the environment of ``current`` was there before
_CONTAINERS = frozenset({CONTAINER})
SHARED_IMAGE = "toolchains"  # the folder of the image that the images of the platforms are made from
_HARNESS = re.compile(r"(?:src/)?kernel_matrix/(.+)")
# Of ``run``: a job's command, variables and cases; how its environment is made; how its process is started in it; and
# how other jobs wait while it measures. A name that ends in '/' is a folder.
_OF_RUN = ("run/job_command.py", "run/suite_command.py", "run/quiet.py", "run/environments/")
_OF_IMAGES = re.compile(r"(?:src/)?kernel_matrix/run/container/\w+\.py")
_ONLY_OF_BUILDS = "run/environments/built.py"
_ONLY_OF_MADE = "run/activated.py"  # for the environments that the harness makes
_ONLY_OF_SUITES = ("job/suite_plugin.py", "job/ctest.py")  # for suites that know nothing of the harness
_VENDOR = re.compile(r"vendors/(\w+)\.py")
# The rooms that decide which cases there are and how they run: a plan by changed files takes all of them.
_RUNS_CASES = ("base", "config", "job", "kit", "run", "vendors")
_READ_BY_PEOPLE = ("*.md", "docs/*", "LICENSE", "*/LICENSE", ".*", "*/.*", "*.pyc")
_SETTINGS_OF_PYTEST = ("pytest.ini", "pytest.toml", "pyproject.toml", "tox.ini", "setup.cfg")
# Results by the names that the harness gives them: tables, journals, and what a person has signed.
_RESULT = re.compile(
    r"(?:.+/)?(?:(?:jobs|cases|outputs|samples)/[^/]+-[0-9a-f]{16}\.parquet|journals/[^/]+-[0-9a-f]{16}\.jsonl"
    r"|results[^/]*/(?:.+/)?(?:jobs|cases|outputs|samples)\.parquet"
    r"|[A-Za-z0-9-]{1,39}-[0-9a-f]{12}\.txt|told/[^/]+/inventory\.json(?:\.sig)?)"
)
# What Python loads by itself where it lies in a folder that is imported from, and what a compiler is given.
_PYTHON = (".py", ".so", ".pyd", ".pth")
_SOURCES = re.compile(
    r"\.(?:c|cc|cpp|cxx|c\+\+|cu|cuh|h|hh|hpp|hxx|inl|inc|hip|cl|clh|metal|m|mm|wgsl|glsl|hlsl|comp|s|asm|ptx|ll|mlir|td"
    r"|f|f90|f95|f03|rs|go|zig|pyx|pxd|pxi|pyi|cmake|mk|bzl|build)",
    re.IGNORECASE,
)
_BUILD_FILES = ("CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "BUILD", "WORKSPACE")


class Readers(NamedTuple):
    """The jobs that read a file, and the part of a job's files that it belongs to. A set that is None has all names."""

    part: Part
    toolchains: frozenset[str] | None = None
    platforms: frozenset[str] | None = None
    executors: frozenset[str] | None = None


@dataclass(frozen=True)
class Concerned:
    """The toolchains and platforms that changes concern, each with the first file that does, or the first part of it.

    ``entries`` are toolchains of one platform alone, as pairs of platform and toolchain. ``everything`` is the first
    file that concerns all of them; empty if there is none.
    """

    toolchains: Mapping[str, str] = field(default_factory=dict)
    platforms: Mapping[str, str] = field(default_factory=dict)
    everything: str = ""
    entries: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def file_for(self, platform: str, toolchain: str) -> str:
        """Return a changed file that concerns the toolchain on the platform; empty if there is none."""
        files = (
            self.toolchains.get(toolchain),
            self.platforms.get(platform),
            self.entries.get((platform, toolchain)),
        )
        return min((file for file in files if file), default=self.everything)

    def __or__(self, other: Concerned) -> Concerned:
        """Return the union. Where both name a file for the same jobs, the file of this object is kept."""
        return Concerned(
            {**other.toolchains, **self.toolchains},
            {**other.platforms, **self.platforms},
            self.everything or other.everything,
            {**other.entries, **self.entries},
        )


def readers_of(matrix: Matrix, path: str) -> Readers | None:
    """Return which jobs read a file; None if none does. Its path is relative to the folder of matrix.yaml."""
    if _OF_IMAGES.fullmatch(path):
        return Readers("image", executors=_CONTAINERS)
    if match := _HARNESS.fullmatch(path):
        return _readers_of_harness(matrix, match[1])
    unread = (*_READ_BY_PEOPLE, *matrix.ci.unread, *matrix.package.rule_files)
    if (of_emulator := _readers_of_emulator(matrix, path)) is not None:
        return of_emulator
    if any(fnmatch.fnmatchcase(path, pattern) for pattern in unread):
        return None
    if _RESULT.fullmatch(path):
        return None
    if (of_image := _readers_of_image(matrix, path)) is not None:
        return of_image
    if _is_of_suite(matrix, path):
        return Readers("suite")
    if is_named(matrix, path):
        return Readers("package")
    return _readers_of_package(matrix, path)


def is_named(matrix: Matrix, path: str) -> bool:
    """Return whether matrix.yaml names a file as one that jobs read."""
    return any(fnmatch.fnmatchcase(path, pattern) for pattern in matrix.ci.read)


def is_python(path: str) -> bool:
    """Return whether Python or pytest reads a file by itself where it lies in the folder of a suite."""
    return path.endswith(_PYTHON) or PurePosixPath(path).name in ("conftest.py", *_SETTINGS_OF_PYTEST)


def is_source(path: str) -> bool:
    """Return whether a file is source of a program, by its name."""
    name = PurePosixPath(path)
    return is_python(path) or bool(_SOURCES.fullmatch(name.suffix)) or name.name in _BUILD_FILES


def is_of_harness(path: str) -> bool:
    """Return whether the path of a file is one of the harness's source."""
    return bool(_HARNESS.fullmatch(path))


def concerned(matrix: Matrix, paths: Iterable[str]) -> Concerned:
    """Return whose cases are to run again where the files changed, with the first file in the order of their names.

    More counts than what their jobs read: the whole matrix.yaml, a file that a lock was resolved from, and all of the
    harness that decides which cases there are and how they run.
    """
    whole = Concerned()
    for path in sorted(set(paths)):
        whole = whole | _concerned(matrix, path)
    return whole


def _concerned(matrix: Matrix, path: str) -> Concerned:
    harness = _HARNESS.fullmatch(path)
    is_matrix = "/" not in path and path.endswith((".yaml", ".yml"))
    readers = readers_of(matrix, path)
    if readers is not None:
        return _those(path, readers)
    if is_matrix or path == matrix.package.preflight or _may_run_cases(matrix, harness):
        return Concerned(everything=path)
    toolchains = [name for name, toolchain in matrix.toolchains.items() if path in names_of(toolchain.lock)]
    entries = [entry for entry, lock in matrix.own_locks.items() if path in names_of(lock)]
    return Concerned(dict.fromkeys(toolchains, path), {}, "", dict.fromkeys(entries, path))


def _those(path: str, readers: Readers) -> Concerned:
    if readers.toolchains is not None and readers.platforms is not None:
        pairs = ((platform, toolchain) for platform in readers.platforms for toolchain in readers.toolchains)
        return Concerned(entries=dict.fromkeys(sorted(pairs), path))
    if readers.toolchains is not None:
        return Concerned(toolchains=dict.fromkeys(sorted(readers.toolchains), path))
    if readers.platforms is not None:
        return Concerned(platforms=dict.fromkeys(sorted(readers.platforms), path))
    return Concerned(everything=path)


def _may_run_cases(matrix: Matrix, harness: re.Match[str] | None) -> bool:
    """Return whether a file of the harness, which no job reads, may decide which cases there are and how they run."""
    if harness is None:
        return False
    if (match := _VENDOR.fullmatch(harness[1])) and match[1] in vendor_names():
        return False
    is_other_s = harness[1] in _ONLY_OF_SUITES and not is_suite(matrix)
    return PurePosixPath(harness[1]).parts[0] in _RUNS_CASES and not is_other_s


def _readers_of_harness(matrix: Matrix, name: str) -> Readers | None:
    """Return the readers of a file of the harness, by its path in the harness's folder."""
    if not name.endswith(".py"):
        return None
    if match := _VENDOR.fullmatch(name):
        if match[1] not in vendor_names():
            return None
        platforms = {key for key, platform in matrix.platforms.items() if platform.device == match[1]}
        return Readers("harness", platforms=frozenset(platforms))
    if (name in _ONLY_OF_SUITES and not is_suite(matrix)) or (
        name == _ONLY_OF_BUILDS and not matrix.package.build_commands
    ):
        return None
    if name == _ONLY_OF_MADE:
        return Readers("harness", executors=MADE_FROM_LOCKS)
    return Readers("harness") if name.startswith(("job/", "kit/", *_OF_RUN)) else None


def _readers_of_emulator(matrix: Matrix, path: str) -> Readers | None:
    """Return the jobs whose emulator the file is of; None for a file of no emulator."""
    uses = [
        (name, entry.toolchain)
        for name, platform in matrix.platforms.items()
        for entry in platform.entries
        if entry.emulator and path.startswith(f"{entry.emulator}/")
    ]
    platforms, toolchains = frozenset(name for name, _ in uses), frozenset(name for _, name in uses)
    return Readers("package", toolchains, platforms) if uses else None


def _readers_of_image(matrix: Matrix, path: str) -> Readers | None:
    """Return the platforms whose image is made from the folder of the file; None for a file of another kind."""
    made = {
        name
        for name, one in matrix.platforms.items()
        if one.container and path.startswith(_folders_of_image(one.container))
    }
    return Readers("image", platforms=frozenset(made), executors=_CONTAINERS) if made else None


@cache
def _folders_of_image(dockerfile: str) -> tuple[str, str]:
    folder = PurePosixPath(dockerfile).parent
    return f"{folder}/", f"{folder.parent / SHARED_IMAGE}/"


def _is_of_suite(matrix: Matrix, path: str) -> bool:
    """Return whether the file is of the suite, or says how pytest runs it."""
    suite = matrix.package.suite
    if path == suite or _is_below(path, suite):
        return True
    settings = ("conftest.py", *_SETTINGS_OF_PYTEST) if is_suite(matrix) else ("conftest.py",)
    folder, _, name = path.rpartition("/")
    return name in settings and PurePosixPath(folder) in PurePosixPath(suite).parents


def _is_below(path: str, folder: str) -> bool:
    """Return whether a file is in a folder, by their names: a run asks this of each file for each job."""
    name = _normal(folder)
    return name == "." or path.startswith(f"{name}/")


@cache
def _normal(folder: str) -> str:
    return str(PurePosixPath(folder))


def _readers_of_package(matrix: Matrix, path: str) -> Readers | None:
    """Return the readers of a file of the package's source: a folder of a backend concerns its toolchains alone."""
    # What is built may be made from any file of the repository.
    source = "." if matrix.package.build_commands else matrix.package.source
    if not _is_below(path, source):
        return None
    is_in_package = _is_below(path, f"{source}/{matrix.package.name}")
    if not is_in_package and (path.endswith(".xml") or _is_of_harness_s_user(matrix, path)):
        return None
    folder = matrix.package.backends
    if folder and (match := re.fullmatch(rf"{re.escape(folder.rstrip('/'))}/([^/]+)/.+", path)):
        names = {name for name, chain in matrix.toolchains.items() if match[1] in (chain.backend, *chain.uses)}
        # A folder that belongs to no toolchain may be shared by all.
        return Readers("package", toolchains=frozenset(names) or None)
    return Readers("package")


def _is_of_harness_s_user(matrix: Matrix, path: str) -> bool:
    """Return whether a file, where the source is the whole repository, is for the harness and not for a job."""
    locks = {toolchain.lock for toolchain in matrix.toolchains.values()} | set(matrix.own_locks.values())
    if any(path in names_of(lock) for lock in locks) or path.startswith(("build/", "matrix.")):
        return True
    folders = (matrix.package.probes, matrix.package.sweeps)
    return any(folder and path.startswith(f"{folder.rstrip('/')}/") for folder in folders)
