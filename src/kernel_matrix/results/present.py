"""The checkout and its matrix.yaml -> Present. A result that does not agree with it is stale.

A new result says what its job read (:mod:`kernel_matrix.config.reads`): it is stale if a job would read something else
today. An older one says its commit only: it is stale if a file that a job reads was changed since.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.concern import Concerned, read_by_results
from kernel_matrix.config.load import MATRIX_FILE
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.reads import (
    Checkout,
    differences,
    digest_of,
    digest_of_code,
    is_outside,
    says_what_it_read,
)
from kernel_matrix.store.record import Record, versions_of

CLOCKS_DIFFER = timedelta(minutes=10)  # two machines' clocks agree to a few minutes
_MEASURED = ("pass", "fail", "error")  # the outcomes of a case that was tried


@dataclass(frozen=True)
class Pins:
    """The path of a toolchain's lock, the sha256 of the file, and the versions that the toolchain requires."""

    lock: str
    sha256: str
    requires: tuple[str, ...]


@dataclass(frozen=True)
class Present:
    """The present state that results must agree with: time, what jobs read, locks and pinned versions.

    ``checkout`` is what jobs read today. A result that does not say what its job read is compared by its commit:
    ``changed`` has an entry for each commit that a record names. It says what is concerned by the files that were
    changed since; it is None if the checkout does not have the commit. ``changed_outside`` has the same for jobs that
    ran in no container: files that only images are made from do not count. In a copy without a history
    (``is_checkout`` is false) only the names of commits are compared. ``entries`` has the pins of a toolchain that has
    a lock of its own on a platform, by platform and toolchain.
    """

    now: datetime
    commit: str = ""
    is_checkout: bool = False
    toolchains: Mapping[str, Pins] = field(default_factory=dict)
    changed: Mapping[str, Concerned | None] = field(default_factory=dict)
    entries: Mapping[tuple[str, str], Pins] = field(default_factory=dict)
    changed_outside: Mapping[str, Concerned | None] = field(default_factory=dict)
    checkout: Checkout | None = None

    @property
    def note(self) -> str:
        """A sentence that says what cannot be known here; empty if everything can."""
        if self.commit:
            return ""
        return "This is no git checkout: whether a result is of another commit is not known."

    def stale(self, platform: str, toolchain: str, record: Record) -> str:
        """Return why a record is stale for the toolchain on the platform; empty if it is not."""
        if record.outcome not in _MEASURED:
            return ""
        return "; ".join(self._differences(platform, toolchain, record.job))

    def _differences(self, platform: str, toolchain: str, job: Mapping[str, str]) -> Iterator[str]:
        yield from _start_time(job.get("started", ""), self.now)
        changed = self.changed_outside if is_outside(job) else self.changed
        if self.checkout and says_what_it_read(job):
            yield from self._another_reading(platform, toolchain, job, changed)
        else:
            yield from self._another_commit(platform, toolchain, job.get("commit", ""), changed)
        pins = self.entries.get((platform, toolchain)) or self.toolchains.get(toolchain)
        if pins is None:
            return
        if pins.sha256 and (lock := job.get("lock.sha256", "")) != pins.sha256:
            yield f"it was measured with another {pins.lock} (sha256 {lock[:12] or 'not said'})"
        versions = versions_of(job)
        if pins.requires and not versions:
            yield "it names no versions"
        for text in pins.requires if versions else ():
            if not satisfies([text], versions):
                yield f"its versions do not meet {text}"

    def _another_reading(
        self, platform: str, toolchain: str, job: Mapping[str, str], changed: Mapping[str, Concerned | None]
    ) -> Iterator[str]:
        """Yield what the job read that is another today, with a changed file if git knows one."""
        assert self.checkout
        if difference := self.checkout.difference(platform, toolchain, job):
            base = job.get("commit", "").partition("+")[0]
            since = changed.get(base)
            path = since.file_for(platform, toolchain) if since else ""
            yield f"{path} was changed since commit {base[:12]}" if path else difference

    def _another_commit(
        self, platform: str, toolchain: str, revision: str, changed: Mapping[str, Concerned | None]
    ) -> Iterator[str]:
        if not self.commit or revision == self.commit:
            return
        base, _, changes = revision.partition("+")
        if not base:
            yield "it names no commit"
        elif not self.is_checkout:
            if not _same(base, self.commit):
                yield f"it is of commit {base[:12]}; this is {self.commit[:12]}, without its history"
        elif (since := changed.get(base)) is None:
            yield f"commit {base[:12]} is not in this checkout"
        elif changes:
            yield f"it is of commit {base[:12]} with changes that are in no commit"
        elif path := since.file_for(platform, toolchain):
            yield f"{path} was changed since commit {base[:12]}"


def present(
    matrix: Matrix,
    root: Path,
    records: Iterable[Record],
    files: Iterable[Path] = (),
    now: datetime | None = None,
    name: str = MATRIX_FILE,
) -> Present:
    """Return the present state of the checkout at ``root``. Git is asked once for each commit of stale records.

    ``files`` are the result files. Where they lie in the checkout, they do not count as changed files. ``name`` is the
    name of the matrix's file in ``root``.
    """
    results = {file.resolve() for file in files}
    is_checkout = git.is_checkout(root)
    commits: dict[bool, set[str]] = {False: set(), True: set()}  # by whether their jobs ran outside of containers
    for record in records if is_checkout else ():
        commits[is_outside(record.job)].add(record.job.get("commit", "").partition("+")[0])
    paths = cache(partial(_changed_since, root, results))
    changed, outside = (
        _Since(
            sorted(commits[is_outside] - {""}),
            partial(_concerned_since, matrix, root, paths, name, is_outside=is_outside),
        )
        for is_outside in (False, True)
    )
    toolchains = {
        name: Pins(toolchain.lock, _sha256(root / toolchain.lock), tuple(toolchain.requires))
        for name, toolchain in matrix.toolchains.items()
    }
    entries = {
        (platform, name): Pins(lock, _sha256(root / lock), toolchains[name].requires)
        for (platform, name), lock in matrix.own_locks.items()
    }
    time, checkout = now or datetime.now(UTC), Checkout(matrix, root)
    return Present(time, git.commit(root), is_checkout, toolchains, changed, entries, outside, checkout)


def start_of(job: Mapping[str, str], now: datetime) -> datetime | None:
    """Return when a job started; None if its facts do not say so, or if they cannot be true."""
    started = job.get("started", "")
    return None if next(_start_time(started, now), "") else _moment(started)


def _start_time(started: str, now: datetime) -> Iterator[str]:
    """Yield why the start time of a job cannot be true."""
    if not started:
        yield "it does not say when it started"
    elif (moment := _moment(started)) is None:
        yield f"its start time {started[:40]!r} cannot be read"
    elif moment > now + CLOCKS_DIFFER:
        yield f"it started at {started}, which is in the future"


def _moment(started: str) -> datetime | None:
    """Return the time that a text says, in UTC where it names no zone; None if it cannot be read."""
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _same(one: str, other: str) -> bool:
    """Return whether two names of commits, one perhaps shortened, name the same one."""
    return min(len(one), len(other)) >= 7 and (one.startswith(other) or other.startswith(one))


def _sha256(path: Path) -> str:
    """Return the digest of a file; empty if it is not there."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


class _Since(Mapping[str, Concerned | None]):
    """Hold what is concerned since each commit. It is found out when it is asked for: few results are stale."""

    def __init__(self, revisions: Iterable[str], concerned: Callable[[str], Concerned | None]) -> None:
        self._revisions, self._concerned = [*revisions], cache(concerned)

    def __getitem__(self, revision: str) -> Concerned | None:
        if revision not in self._revisions:
            raise KeyError(revision)
        return self._concerned(revision)

    def __iter__(self) -> Iterator[str]:
        return iter(self._revisions)

    def __len__(self) -> int:
        return len(self._revisions)


def _changed_since(root: Path, results: Container[Path], revision: str) -> list[str] | None:
    """Return the files that were changed since a commit, apart from results; None if the checkout does not have it."""
    paths = git.changed_since(root, revision)
    return None if paths is None else [path for path in paths if (root / path).resolve() not in results]


def _concerned_since(
    matrix: Matrix,
    root: Path,
    changed: Callable[[str], Sequence[str] | None],
    name: str,
    revision: str,
    *,
    is_outside: bool,
) -> Concerned | None:
    """Return whom the changed files concern: files with other code, and of the matrix's file what a job reads of it."""
    if (paths := changed(revision)) is None:
        return None

    def concerned(files: Sequence[str]) -> Concerned:
        return read_by_results(matrix, files, in_container=not is_outside)

    others = _with_other_code(concerned, root, revision, [path for path in paths if path != name])
    if name not in paths:
        return concerned(others)
    former = git.contents_at(root, revision, [name]).get(name)
    text = (root / name).read_text(encoding="utf-8")
    of_matrix = None if former is None else differences(former.decode(errors="replace"), text, name)
    return (Concerned(everything=name) if of_matrix is None else of_matrix) | concerned(others)


def _with_other_code(
    concerned: Callable[[Sequence[str]], Concerned],
    root: Path,
    revision: str,
    paths: Sequence[str],
) -> list[str]:
    """Return the changed files that jobs read, without Python files that are the same code as at ``revision``.

    Behind the first file that concerns everything no other is compared: it decides already.
    """
    of_paths = {path: found for path in paths if (found := concerned([path])) != Concerned()}
    python = [path for path in of_paths if path.endswith(".py") and (root / path).is_file()]
    former = git.contents_at(root, revision, python)
    different: list[str] = []
    for path, of_path in of_paths.items():
        if path in former and digest_of_code(former[path]) == digest_of(root / path):
            continue
        different.append(path)
        if of_path.everything:
            break
    return different
