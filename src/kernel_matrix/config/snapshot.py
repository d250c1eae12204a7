"""The files that one job reads, from its start to its end -> the commit that they are of, and what changed meanwhile.

Git's index is asked for one thing: which files it tracks. What it ignores, and what it is told not to look at, can be
read by a job all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.opened import Opened
from kernel_matrix.config.file_readers import is_python, is_source
from kernel_matrix.config.load import MATRIX_FILE
from kernel_matrix.config.locks import files_of
from kernel_matrix.config.reads import Checkout

_CHANGES = "+changes"
_RULES = ".gitignore"  # by such files some files of the package's folder do not count
_State = tuple[int, int, int]  # when the file was changed, by a clock that no program sets; which it is, how long


@dataclass(frozen=True)
class Seen:
    """The files of a job that need a word when it has ended.

    ``changed`` were read and written, so that nobody knows what was measured. ``own`` are loose files that were read
    and then written: by the job itself, as far as anybody knows. ``facts`` tell which loose files count.
    """

    changed: tuple[str, ...]
    own: tuple[str, ...]
    facts: Mapping[str, str]


@dataclass(frozen=True)
class Snapshot:
    """The facts that say what a job reads, and the state of each of its files in the repository."""

    checkout: Checkout
    job: tuple[str, str, str]  # its platform, toolchain and executor
    facts: Mapping[str, str]
    files: Mapping[str, tuple[str, int]]  # with a hash
    loose: Mapping[str, _State] = field(default_factory=dict)

    @classmethod
    def of(cls, checkout: Checkout, platform: str, toolchain: str, executor: str, ops: Iterable[str]) -> Snapshot:
        """Return the files as they are now."""
        files = checkout.files_of(platform, toolchain, executor)
        facts = checkout.facts_of(platform, toolchain, executor, ops)
        loose = {name: _state(path) for name, path in checkout.loose_of(platform, toolchain, executor).items()}
        present = {name: state for name, state in loose.items() if state}
        return cls(checkout, (platform, toolchain, executor), facts, files, present)

    def commit(self) -> str:
        """Return the commit of the checkout, with ``+changes`` if what the job reads differs from it.

        Outside a git checkout it is what :func:`kernel_matrix.base.git.commit` says.
        """
        root = self.checkout.root
        if not git.is_checkout(root):
            return git.commit(root)
        committed = git.blobs(root, "HEAD")
        own = {*(name for name in committed if self.checkout.is_read(name, *self.job)), *self.files}
        lock = self.checkout.matrix.lock_of(*self.job[:2])
        own |= {MATRIX_FILE, *_rules(root, self.checkout, committed)}
        own |= {path.relative_to(root).as_posix() for path in files_of(root, lock) if path.is_relative_to(root)}
        there = {name: committed.get(name) for name in own if name in committed or (root / name).exists()}
        is_same = git.are_in(root, there)
        revision = git.revision(root)
        return revision if is_same else f"{revision}{_CHANGES}"

    def watched(self, *roots: Path) -> Opened:
        """Return the watch over the loose files, in each of the folders that the job may find them in."""
        return Opened({name: [root / name for root in dict.fromkeys(roots)] for name in self.loose})

    def seen(self, commit: str, opened: Mapping[str, bool] | None) -> Seen:
        """Return what became of the files since; ``opened`` is what the watch saw, and ``commit`` the job's.

        A suite may write files next to its tests. So a new file counts only if Python or pytest would read it. What is
        built from source may have been built before, so loose source counts also if nobody opened it.
        """
        now = Checkout(self.checkout.matrix, self.checkout.root)
        files = now.files_of(*self.job)
        changed = {name for name, state in self.files.items() if files.get(name) != state}
        changed |= {name for name in files if name not in self.files and name not in self.loose and is_python(name)}
        written = {name for name, state in self.loose.items() if _state(now.root / name) != state}
        read = {name for name in self.loose if opened is None or name in opened or self._may_be_built(name)}
        first = {name for name in written if is_source(name)} if opened is None else {n for n in opened if opened[n]}
        changed |= {name for name in written & first if is_source(name)}
        facts = now.facts_of_loose(read - written)
        if facts and commit and self.checkout.tracked is not None:
            facts["commit"] = f"{commit.removesuffix(_CHANGES)}{_CHANGES}"
        return Seen(tuple(sorted(changed)), tuple(sorted(written & first - changed)), facts)

    def _may_be_built(self, name: str) -> bool:
        return is_source(name) or bool(self.checkout.matrix.package.build_commands)


def _state(path: Path) -> _State | None:
    """Return the state of a file; None if it is gone."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_ino, status.st_size


def _rules(root: Path, checkout: Checkout, committed: Iterable[str]) -> set[str]:
    """Return the files with git's rules for the folder of the package and the folders above it."""
    source = Path(checkout.matrix.package.source)
    above = {(folder / _RULES).as_posix() for folder in (source, *source.parents)}
    below = {path.relative_to(root).as_posix() for path in (root / source / checkout.matrix.package.name).rglob(_RULES)}
    return {name for name in above if (root / name).exists()} | below | {name for name in committed if name in above}
