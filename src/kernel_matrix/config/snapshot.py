"""The files that one job reads, at one moment -> the commit that they are of, and what changed until another moment.

Git's index is not asked: what it ignores, and what it is told not to look at, can be read by a job all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.config.load import MATRIX_FILE
from kernel_matrix.config.reads import Checkout, is_code

_CHANGES = "+changes"
_RULES = ".gitignore"  # by such files some files of the package's folder do not count


@dataclass(frozen=True)
class Snapshot:
    """The facts that say what a job reads, and the hash and time of each of its files in the repository."""

    checkout: Checkout
    job: tuple[str, str, str]  # its platform, toolchain and executor
    facts: Mapping[str, str]
    files: Mapping[str, tuple[str, int]]

    @classmethod
    def of(cls, checkout: Checkout, platform: str, toolchain: str, executor: str, ops: Iterable[str]) -> Snapshot:
        """Return the files as they are now."""
        files = checkout.files_of(platform, toolchain, executor)
        facts = checkout.facts_of(platform, toolchain, executor, ops)
        return cls(checkout, (platform, toolchain, executor), facts, files)

    def commit(self) -> str:
        """Return the commit of the checkout, with ``+changes`` if what the job reads differs from it.

        Outside a git checkout it is what :func:`kernel_matrix.base.git.commit` says.
        """
        root = self.checkout.root
        if not git.is_checkout(root):
            return git.commit(root)
        committed = git.blobs(root, "HEAD")
        own = {*(name for name in committed if self.checkout.is_read(name, *self.job)), *self.files}
        own |= {MATRIX_FILE, self.checkout.matrix.lock_of(*self.job[:2]), *_rules(root, self.checkout, committed)}
        there = {name: committed.get(name) for name in own if name in committed or (root / name).exists()}
        is_same = git.are_in(root, there)
        revision = git.revision(root)
        return revision if is_same else f"{revision}{_CHANGES}"

    def changed_since(self) -> list[str]:
        """Return the files that were written since, also those that have the same content again.

        A suite may write files next to its tests. So a new file counts only if Python or pytest would read it.
        """
        now = Checkout(self.checkout.matrix, self.checkout.root).files_of(*self.job)
        changed = {name for name, state in self.files.items() if now.get(name) != state}
        return sorted(changed | {name for name in now if name not in self.files and is_code(name)})


def _rules(root: Path, checkout: Checkout, committed: Iterable[str]) -> set[str]:
    """Return the files with git's rules for the folder of the package and the folders above it."""
    source = Path(checkout.matrix.package.source)
    above = {(folder / _RULES).as_posix() for folder in (source, *source.parents)}
    below = {path.relative_to(root).as_posix() for path in (root / source / checkout.matrix.package.name).rglob(_RULES)}
    return {name for name in above if (root / name).exists()} | below | {name for name in committed if name in above}
