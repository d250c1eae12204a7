"""The checkout as a job reads it -> facts of the job, by which its results are told from those of another checkout."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import sha256
from pathlib import Path

import kernel_matrix
from kernel_matrix.base import git
from kernel_matrix.base.syntax import code_of
from kernel_matrix.config.concern import Readers, is_of_harness, readers_of
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.read_by_jobs import read_by_job

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
_OUTSIDE = ("venv", "current")  # the executors that start no container
_NOT_SOURCE = ("__pycache__", "node_modules")


def is_outside(job: Mapping[str, str]) -> bool:
    """Return whether a job says that it ran in no container."""
    return job.get("executor") in _OUTSIDE


def says_what_it_read(job: Mapping[str, str]) -> bool:
    """Return whether the facts of a job have the hashes of what it read: those of earlier versions have none."""
    return f"{_FACT}harness" in job


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
                if _reads(readers, platform, toolchain) and not (outside and readers.only_in_containers):
                    parts[readers.part].append(f"{name} {_digest_of(path)}")
            parts["matrix"] = [json.dumps(read_by_job(self.matrix, platform, toolchain), sort_keys=True)]
            self._facts[key] = {f"{_FACT}{name}": _digest("\n".join(lines).encode()) for name, lines in parts.items()}
        return self._facts[key]

    @cached_property
    def _axes(self) -> dict[str, str]:
        return {name: _digest(" ".join(op.axes).encode()) for name, op in self.matrix.ops.items()}

    @cached_property
    def _files(self) -> list[tuple[str, Path, Readers]]:
        """All files that some job reads, by their names in turn."""
        harness = {f"kernel_matrix/{path.relative_to(_HARNESS)}": path for path in _HARNESS.rglob("*.py")}
        own = {name: self.root / name for name in _names(self.root) if not is_of_harness(name)}
        files = []
        for name, path in sorted({**own, **harness}.items()):
            readers = readers_of(self.matrix, name)
            if readers is not None and path.is_file():
                files.append((name, path, readers))
        return files


def _reads(readers: Readers, platform: str, toolchain: str) -> bool:
    is_toolchain_s = readers.toolchains is None or toolchain in readers.toolchains
    return is_toolchain_s and (readers.platforms is None or platform in readers.platforms)


def _names(root: Path) -> Iterator[str]:
    """Yield the files below a folder: all that git does not ignore, or without git all that look like source."""
    if listed := git.files(root):
        yield from listed
        return
    for folder, folders, files in os.walk(root):
        folders[:] = [
            name for name in folders if not name.startswith(".") and name not in _NOT_SOURCE
            and not name.endswith(".egg-info") and Path(folder, name) != root / "build"
        ]  # fmt: skip
        yield from (str(Path(folder, name).relative_to(root)) for name in files)


def _digest_of(path: Path) -> str:
    """Return the hash of a file's code: comments, docstrings and layout of a Python file change no result."""
    status = path.stat()
    return _digest_at(path, status.st_mtime_ns, status.st_size)


@cache
def _digest_at(path: Path, changed: int, size: int) -> str:  # noqa: ARG001  they say which content the hash is of
    content = path.read_bytes()
    if path.suffix == ".py":
        with suppress(SyntaxError, ValueError, RecursionError):
            content = code_of(content.decode()).encode()
    return _digest(content)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()[:16]
