"""The checkout as a job reads it -> facts of the job, which tell its results from another checkout's.

Of the files that :mod:`kernel_matrix.config.file_readers` finds, these count whoever opens them: what git tracks, what
Python loads by itself, what ``ci.read`` names, and what an image is made from. The others are loose: tables, pictures
and logs may have been left by a job, or by the shell that shows its progress. A loose file counts for a job if it lay
there when the job started, nobody wrote it, and somebody opened it (:mod:`kernel_matrix.config.snapshot`).

Of ``matrix.yaml`` a job reads parts. The entries of cases are not compared: a case with other values of its axes has
another name. Every part that is not named here as unread concerns everything that it could concern.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import kernel_matrix
from kernel_matrix.base import git
from kernel_matrix.config import code_digests
from kernel_matrix.config.file_readers import (
    CONTAINER,
    Readers,
    is_named,
    is_of_harness,
    is_python,
    is_source,
    readers_of,
)
from kernel_matrix.config.model import Matrix

_HARNESS = Path(kernel_matrix.__file__).parent
_FACT = "reads."  # the facts of a job that say what it read begin so
_AXES = f"{_FACT}axes"  # by operator
LOOSE = f"{_FACT}loose"  # a mark of each loose file that counted; every other fact is one hash
_WITHOUT_GIT = f"{_FACT}without-git"  # "yes" where nobody could say which files git tracks
_OF_NAME = 8  # characters of a mark; the others are of the content
_MOST_MARKS = 10_000  # in a fact
_PARTS = {
    "harness": "part of the harness",
    "package": "package",
    "suite": "suite",
    "image": "recipe of its image",
    "matrix": "part of matrix.yaml",
}
_NOT_SOURCE = ("__pycache__", "node_modules")


class _File(NamedTuple):
    """A file that some job reads. It is ``loose`` if a job or a shell may have written it while a job ran."""

    name: str
    path: Path
    readers: Readers
    loose: bool


class _Way(NamedTuple):
    """The way that a job took the files that it reads, which says which of them stand in its hashes.

    Those that counted as loose files stand apart: ``apart`` has the marks of their names.
    """

    executor: str
    without_git: bool = False
    apart: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Checkout:
    """The files and the matrix.yaml that jobs read today."""

    matrix: Matrix
    root: Path
    _facts: dict[tuple[str, str, _Way], Mapping[str, str]] = field(default_factory=dict, repr=False, compare=False)

    def facts_of(self, platform: str, toolchain: str, executor: str, ops: Iterable[str]) -> dict[str, str]:
        """Return the facts that say what a job reads: a hash of each part, and of the axes of each of its operators.

        They speak of no loose file.
        """
        axes = " ".join(f"{op}:{self._axes[op]}" for op in sorted(set(ops)) if op in self._axes)
        way = _Way(executor, self.tracked is None)
        others = {_WITHOUT_GIT: "yes"} if way.without_git else {}
        return {**self._hashes(platform, toolchain, way), _AXES: axes, **others}

    def facts_unwatched(self, platform: str, toolchain: str, executor: str, ops: Iterable[str]) -> dict[str, str]:
        """Return the facts of work in which nobody looked at who opens files: all source counts, loose or not."""
        loose = filter(is_source, self.loose_of(platform, toolchain, executor))
        return {**self.facts_of(platform, toolchain, executor, ops), **self.facts_of_loose(loose)}

    def facts_of_loose(self, names: Iterable[str]) -> dict[str, str]:
        """Return the fact that says which loose files counted for a job."""
        marks = sorted(_mark(name, self.root / name) for name in names)
        if len(marks) > _MOST_MARKS:
            marks = [_digest_of_text("\n".join(marks))]
        return {LOOSE: " ".join(marks)} if marks else {}

    def difference(self, platform: str, toolchain: str, job: Mapping[str, str]) -> str:
        """Return what a job with these facts read otherwise than one would today; empty if nothing."""
        if f"{_FACT}harness" not in job:
            return "it does not say what its job read"
        loose = job.get(LOOSE, "")
        way = _Way(job.get("executor", ""), _WITHOUT_GIT in job, _names_of(loose))
        today = self._hashes(platform, toolchain, way)
        others = [_PARTS[name.removeprefix(_FACT)] for name, value in today.items() if job.get(name) != value]
        if not self.has_loose(loose):
            others.append("file beside them that git does not track")
        named = (entry.partition(":") for entry in job.get(_AXES, "").split())
        others += [f"axes of {op}" for op, _, value in named if self._axes.get(op, value) != value]
        return f"its job read another {' and another '.join(others)}" if others else ""

    def _hashes(self, platform: str, toolchain: str, way: _Way) -> Mapping[str, str]:
        key = platform, toolchain, way
        if key not in self._facts:
            names = (name for name in _PARTS if name != "image" or way.executor == CONTAINER)
            parts: dict[str, list[str]] = {name: [] for name in names}
            for file in self._files:
                if _reads(file.readers, platform, toolchain, way.executor) and self._is_hashed(file, way):
                    parts[file.readers.part].append(f"{file.name} {digest_of(file.path)}")
            parts["matrix"] = [json.dumps(read_by_job(self._content, platform, toolchain), sort_keys=True)]
            self._facts[key] = {f"{_FACT}{name}": _digest_of_text("\n".join(lines)) for name, lines in parts.items()}
            code_digests.keep()
        return self._facts[key]

    def _is_hashed(self, file: _File, way: _Way) -> bool:
        """Return whether a file stands in the hash of its part, the way that a job took its files."""
        if way.apart and _digest_of_text(file.name)[:_OF_NAME] in way.apart:
            return False
        if way.without_git:
            return not self._is_loose(file.name, file.readers, None)
        return not file.loose or self.tracked is None  # of a job with git: in a copy of its tree all is as tracked

    def has_loose(self, marks: str) -> bool:
        """Return whether the loose files of a job's fact are here, as they were."""
        names = _names_of(marks)
        found = (file for file in self._files if names and _digest_of_text(file.name)[:_OF_NAME] in names)
        return {*marks.split()} <= {_mark(file.name, file.path) for file in found}

    def files_of(self, platform: str, toolchain: str, executor: str) -> dict[str, tuple[str, int]]:
        """Return the hash of each file of the repository that a job reads now, and when it was changed, by its name.

        The time is the one that no program can set. Loose files are not among them.
        """
        files = self._of_job(platform, toolchain, executor, loose=False)
        return {name: (digest_of(path), path.stat().st_ctime_ns) for name, path in files.items()}

    def loose_of(self, platform: str, toolchain: str, executor: str) -> dict[str, Path]:
        """Return the loose files of the repository that a job may read now, by their names."""
        return self._of_job(platform, toolchain, executor, loose=True)

    def _of_job(self, platform: str, toolchain: str, executor: str, *, loose: bool) -> dict[str, Path]:
        return {
            file.name: file.path
            for file in self._files
            if file.loose == loose
            and _reads(file.readers, platform, toolchain, executor)
            and file.path == self.root / file.name
        }

    def is_read(self, name: str, platform: str, toolchain: str, executor: str) -> bool:
        """Return whether a job reads the file of that name, if there is one."""
        readers = readers_of(self.matrix, name)
        return readers is not None and _reads(readers, platform, toolchain, executor)

    def counts(self, name: str) -> bool:
        """Return whether a file of the checkout counts for some job, whoever opens it."""
        readers = readers_of(self.matrix, name)
        return readers is not None and not self._is_loose(name, readers, self.tracked)

    @cached_property
    def _content(self) -> dict[str, Any]:
        return content_of(self.matrix)

    @cached_property
    def _axes(self) -> dict[str, str]:
        return {name: _digest_of_text(" ".join(op.axes)) for name, op in self.matrix.ops.items()}

    @cached_property
    def tracked(self) -> frozenset[str] | None:
        """The files that git tracks; None where there is no git checkout."""
        return git.tracked_files(self.root)

    @cached_property
    def _files(self) -> list[_File]:
        """All files that some job reads, by their names in turn."""
        harness = {str(path.relative_to(_HARNESS.parent)): path for path in _HARNESS.rglob("*.py")}
        names = {*source_names(self.root), *_hidden(self.root, self.root / self.matrix.package.suite)}
        own = {name: self.root / name for name in names if not is_of_harness(name)}
        files = []
        for name, path in sorted({**own, **harness}.items()):
            readers = readers_of(self.matrix, name)
            if readers is not None and path.is_file():
                loose = path == self.root / name and self._is_loose(name, readers, self.tracked)
                files.append(_File(name, path, readers, loose))
        return files

    def _is_loose(self, name: str, readers: Readers, tracked: Collection[str] | None) -> bool:
        """Return whether a job or a shell may have written a file while a job ran."""
        if readers.part in ("harness", "image") or is_named(self.matrix, name) or name in (tracked or ()):
            return False
        folder, with_git = PurePosixPath(name).parent, tracked is not None
        return not (is_python(name) and self._is_imported_from(folder, with_git=with_git))

    @cached_property
    def _tracked_folders(self) -> set[PurePosixPath]:
        return {folder for name in self.tracked or () for folder in PurePosixPath(name).parents}

    @cached_property
    def _own_folders(self) -> tuple[PurePosixPath, PurePosixPath]:
        package = self.matrix.package
        return PurePosixPath(package.suite), PurePosixPath(package.source, package.name)

    def _is_imported_from(self, folder: PurePosixPath, *, with_git: bool) -> bool:
        """Return whether Python may import from a folder: from one of the source, or a package in such a one.

        Where git says what it tracks, other folders below the suite and the package need not be of the source.
        """
        of_source = (PurePosixPath(), PurePosixPath(self.matrix.package.source), *self._own_folders)
        if folder in of_source or (with_git and folder in self._tracked_folders):
            return True
        if not with_git and any(folder.is_relative_to(own) for own in self._own_folders if own.parts):
            return True
        return (self.root / folder / "__init__.py").exists() and self._is_imported_from(
            folder.parent, with_git=with_git
        )


def _reads(readers: Readers, platform: str, toolchain: str, executor: str) -> bool:
    wanted = (readers.executors, executor), (readers.toolchains, toolchain), (readers.platforms, platform)
    return all(names is None or name in names for names, name in wanted)


def source_names(root: Path) -> Iterator[str]:
    """Yield the files below a folder that git does not ignore; without git, and of what it does not track: source."""
    tracked = git.tracked_files(root)
    if tracked is None:
        yield from _walked(root, root)
        return
    yield from tracked
    may_be = cache(lambda folder: folder == root or (may_be(folder.parent) and _is_of_source(root, folder)))
    yield from (name for name in git.other_files(root) if may_be((root / name).parent))


def _hidden(root: Path, suite: Path) -> Iterator[str]:
    """Yield the files of the suite and above it that change what its tests do, also where git ignores them."""
    yield from (name for name in _walked(root, suite) if is_python(name))
    for folder in suite.parents if suite.is_relative_to(root) and suite != root else ():
        yield str((folder / "conftest.py").relative_to(root))
        if folder == root:
            return


def _walked(root: Path, top: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if _is_of_source(root, Path(folder, name))]
        yield from (str(Path(folder, name).relative_to(root)) for name in files)


def _is_of_source(root: Path, folder: Path) -> bool:
    """Return whether a folder may be of the source, and not of an environment, of a build or of a program's own."""
    return (
        not folder.name.startswith(".")
        and folder.name not in _NOT_SOURCE
        and not folder.name.endswith(".egg-info")
        and folder != root / "build"
        and not (folder / "pyvenv.cfg").exists()
    )


def _names_of(marks: str) -> frozenset[str]:
    """Return what stands for the names in the marks of a fact."""
    return frozenset(mark[:_OF_NAME] for mark in marks.split())


def _mark(name: str, path: Path) -> str:
    """Return what stands for a loose file in a fact: short hashes of its name and of its content."""
    return _digest_of_text(name)[:_OF_NAME] + digest_of(path)[:_OF_NAME]


def digest_of(path: Path) -> str:
    """Return the hash of a file's code: comments, docstrings and layout of a Python file change no result."""
    status = path.stat()
    return _digest_at(path, (status.st_ctime_ns, status.st_ino, status.st_size))  # nobody can set back the first


@cache
def _digest_at(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001  it says which content the hash is of
    content = path.read_bytes()
    if path.suffix != ".py":
        return _digest(content)
    return code_digests.digest_of_code(content, of_harness=path.is_relative_to(_HARNESS))


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


def _digest_of_text(text: str) -> str:
    return _digest(text.encode("utf-8", "surrogateescape"))  # the name of a file need not be UTF-8


_NONE: Mapping[str, Any] = {}
# What no job gets to know: who runs what where, what people expect of results, and how reports show them.
_UNREAD = {
    # The last three are compared part by part.
    "": ("start", "ci", "expectations", "exclusions", "resources", "bench", "fuzz", "toolchains", "platforms", "ops"),
    "package": ("directions", "baseline", "probes", "rules", "sweeps", "checks", "distributions", "companions"),
    # The lock's content and the versions of an environment are compared with the record itself.
    "toolchain": ("requires", "python", "ops", "versions"),
    "platform": ("title", "runner", "targets", "machines", "toolchains"),
    "entry": ("targets", "ops", "cases", "quick", "needs"),
}


def content_of(matrix: Matrix) -> dict[str, Any]:
    """Return the matrix without what stands at its default, so that a new key of the model changes nothing."""
    return matrix.model_dump(mode="json", exclude_defaults=True)


def read_by_job(content: Mapping[str, Any], platform: str, toolchain: str) -> list[Any]:
    """Return all of a matrix's content that a job of the toolchain on the platform reads, but the axes of operators."""
    return [
        {section: _read_section(content, section) for section in sorted(_without(content, ""))},
        _without(content["toolchains"].get(toolchain), "toolchain"),
        _without(content["platforms"].get(platform), "platform"),
        _entries(content["platforms"].get(platform)).get(toolchain),
    ]


def _without(section: Any, kind: str) -> Any:
    """Return a section without the keys that no job reads."""
    if not isinstance(section, dict):
        return section
    return {key: value for key, value in section.items() if key not in _UNREAD[kind]}


def _read_section(content: Mapping[str, Any], section: str) -> Any:
    """Return what every job reads of a section."""
    part = content.get(section)
    if section == "package":
        return _without(part, section)
    return _limits(part) if section == "accuracy" else part


def _limits(rules: Any) -> Any:
    """Return the rules of the accuracy without the texts that say where their limits come from."""
    if not isinstance(rules, dict):
        return rules
    return {key: _limits(value) for key, value in rules.items() if key != "source"}


def _entries(platform: Any) -> dict[str, Any]:
    """Return what jobs read of each toolchain of a platform, by its name."""
    listed = platform.get("toolchains") if isinstance(platform, dict) else None
    entries = [{"toolchain": entry} if isinstance(entry, str) else entry for entry in listed or ()]
    return {str(entry.get("toolchain")): _without(entry, "entry") for entry in entries if isinstance(entry, dict)}
