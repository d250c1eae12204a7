"""The checkout as a job reads it -> facts of the job, which tell its results from another checkout's.

Of ``matrix.yaml`` a job reads parts. A case needs no comparison: its name says the values of its axes, so another case
has another name. Every part that is not named here as unread concerns everything that it could concern.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import kernel_matrix
from kernel_matrix.base import git
from kernel_matrix.base.syntax import code_of
from kernel_matrix.config.concern import Readers, is_of_harness, readers_of
from kernel_matrix.config.model import Matrix

_HARNESS = Path(kernel_matrix.__file__).parent
_FACT = "reads."  # the facts of a job that say what it read begin so
_AXES = f"{_FACT}axes"  # by operator; every other fact is one hash
_PARTS = {
    "harness": "part of the harness",
    "package": "package",
    "suite": "suite",
    "image": "recipe of its image",
    "matrix": "part of matrix.yaml",
}
_CONTAINER = "container"  # the executor whose jobs read what their image is made from
_NOT_SOURCE = ("__pycache__", "node_modules")
_CODE = (".py", ".so", ".pyd", ".pth", ".ini", ".toml", ".cfg")


def is_outside(job: Mapping[str, str]) -> bool:
    """Return whether a job says that it ran in no container."""
    return job.get("executor") != _CONTAINER


@dataclass(frozen=True)
class Checkout:
    """The files and the matrix.yaml that jobs read today."""

    matrix: Matrix
    root: Path
    _facts: dict[tuple[str, str, bool], Mapping[str, str]] = field(default_factory=dict, repr=False, compare=False)

    def facts_of(self, platform: str, toolchain: str, executor: str, ops: Iterable[str]) -> dict[str, str]:
        """Return the facts that say what a job reads: a hash of each part, and of the axes of each of its operators."""
        outside = is_outside({"executor": executor})
        axes = " ".join(f"{op}:{self._axes[op]}" for op in sorted(set(ops)) if op in self._axes)
        return {**self._hashes(platform, toolchain, outside), _AXES: axes}

    def difference(self, platform: str, toolchain: str, job: Mapping[str, str]) -> str:
        """Return what a job with these facts read otherwise than one would today; empty if nothing."""
        if f"{_FACT}harness" not in job:
            return "it does not say what its job read"
        today = self._hashes(platform, toolchain, is_outside(job))
        others = [_PARTS[name.removeprefix(_FACT)] for name, value in today.items() if job.get(name) != value]
        named = (entry.partition(":") for entry in job.get(_AXES, "").split())
        others += [f"axes of {op}" for op, _, value in named if self._axes.get(op, value) != value]
        return f"its job read another {' and another '.join(others)}" if others else ""

    def _hashes(self, platform: str, toolchain: str, outside: bool) -> Mapping[str, str]:
        key = platform, toolchain, outside
        if key not in self._facts:
            parts: dict[str, list[str]] = {name: [] for name in _PARTS if not (outside and name == "image")}
            for name, path, readers in self._files:
                if _reads(readers, platform, toolchain, outside):
                    parts[readers.part].append(f"{name} {digest_of(path)}")
            parts["matrix"] = [json.dumps(read_by_job(self._content, platform, toolchain), sort_keys=True)]
            self._facts[key] = {f"{_FACT}{name}": _digest("\n".join(lines).encode()) for name, lines in parts.items()}
        return self._facts[key]

    def files_of(self, platform: str, toolchain: str, executor: str) -> dict[str, tuple[str, int]]:
        """Return the hash of each file of the repository that a job reads now, and when it was changed, by its name.

        The time is the one that no program can set.
        """
        outside = is_outside({"executor": executor})
        return {
            name: (digest_of(path), path.stat().st_ctime_ns)
            for name, path, readers in self._files
            if _reads(readers, platform, toolchain, outside) and path == self.root / name
        }

    def is_read(self, name: str, platform: str, toolchain: str, executor: str) -> bool:
        """Return whether a job reads the file of that name, if there is one."""
        readers = readers_of(self.matrix, name)
        return readers is not None and _reads(readers, platform, toolchain, is_outside({"executor": executor}))

    @cached_property
    def _content(self) -> dict[str, Any]:
        return content_of(self.matrix)

    @cached_property
    def _axes(self) -> dict[str, str]:
        return {name: _digest(" ".join(op.axes).encode()) for name, op in self.matrix.ops.items()}

    @cached_property
    def _files(self) -> list[tuple[str, Path, Readers]]:
        """All files that some job reads, by their names in turn."""
        found = (*_HARNESS.rglob("*.py"), *_HARNESS.parent.glob("kernel_matrix_containers/*.py"))
        harness = {str(path.relative_to(_HARNESS.parent)): path for path in found}
        names = {*source_names(self.root), *_hidden(self.root, self.root / self.matrix.package.suite)}
        own = {name: self.root / name for name in names if not is_of_harness(name)}
        files = []
        for name, path in sorted({**own, **harness}.items()):
            readers = readers_of(self.matrix, name)
            if readers is not None and path.is_file():
                files.append((name, path, readers))
        return files


def is_code(name: str) -> bool:
    """Return whether Python or pytest reads a file by itself where it lies in the folder of a suite."""
    return name.endswith(_CODE)


def _reads(readers: Readers, platform: str, toolchain: str, outside: bool) -> bool:
    if outside and readers.only_in_containers:
        return False
    is_toolchain_s = readers.toolchains is None or toolchain in readers.toolchains
    return is_toolchain_s and (readers.platforms is None or platform in readers.platforms)


def source_names(root: Path) -> Iterator[str]:
    """Yield the files below a folder: all that git does not ignore, or without git all that look like source."""
    yield from git.files(root) or _walked(root, root)


def _hidden(root: Path, suite: Path) -> Iterator[str]:
    """Yield the files of the suite and above it that change what its tests do, also where git ignores them."""
    yield from (name for name in _walked(root, suite) if is_code(name))
    for folder in suite.parents if suite.is_relative_to(root) and suite != root else ():
        yield str((folder / "conftest.py").relative_to(root))
        if folder == root:
            return


def _walked(root: Path, top: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in _NOT_SOURCE
            and not name.endswith(".egg-info") and Path(folder, name) != root / "build"
            and not Path(folder, name, "pyvenv.cfg").exists()
        ]  # fmt: skip
        yield from (str(Path(folder, name).relative_to(root)) for name in files)


def digest_of(path: Path) -> str:
    """Return the hash of a file's code: comments, docstrings and layout of a Python file change no result."""
    status = path.stat()
    return _digest_at(path, (status.st_ctime_ns, status.st_ino, status.st_size))  # nobody can set back the first


@cache
def _digest_at(path: Path, state: tuple[int, ...]) -> str:  # noqa: ARG001  it says which content the hash is of
    content = path.read_bytes()
    return digest_of_code(content) if path.suffix == ".py" else _digest(content)


@cache
def digest_of_code(content: bytes) -> str:
    """Return the hash of a Python file's code; of all its bytes where they are no UTF-8, or no Python."""
    with suppress(SyntaxError, ValueError, RecursionError):
        content = code_of(content.decode()).encode()
    return _digest(content)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]


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
