"""The checkout and its matrix.yaml -> Present. A result that does not agree with it is stale.

A result says what its job read (:mod:`kernel_matrix.config.reads`): it is stale if a job would read something else
today, by another lock or other versions too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from kernel_matrix.base import git
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.locks import lock_file
from kernel_matrix.config.model import Matrix
from kernel_matrix.config.reads import Checkout
from kernel_matrix.results.repeat import ANOTHER_TOOL
from kernel_matrix.store.record import versions_of
from kernel_matrix.vendors.builds import CPU, OWN
from kernel_matrix.vendors.registry import vendor_named

WITHOUT_LOCK = ("current", ANOTHER_TOOL)  # the executors whose environments are made from no lock
CLOCKS_DIFFER = timedelta(minutes=10)  # two machines' clocks agree to a few minutes


@dataclass(frozen=True)
class Pins:
    """The path of a toolchain's lock, the sha256 of its file, and the versions that the toolchain requires.

    ``of_gpu`` is the sha256 of the lock that a machine with the platform's GPU has, where that is another one.
    """

    lock: str
    sha256: str
    requires: tuple[str, ...]
    of_gpu: str = ""


@dataclass(frozen=True)
class Present:
    """The present state that results must agree with: time, what jobs read, locks and pinned versions.

    ``entries`` has the pins by platform and toolchain; ``toolchains`` has the pins of each toolchain on no platform.
    """

    now: datetime
    checkout: Checkout | None = None
    toolchains: Mapping[str, Pins] = field(default_factory=dict)
    entries: Mapping[tuple[str, str], Pins] = field(default_factory=dict)

    def stale(self, platform: str, toolchain: str, job: Mapping[str, str], *, versions: bool = True) -> str:
        """Return why what a job measured is stale for the toolchain on the platform; empty if it is not.

        ``versions`` are not asked for where the job had no environment.
        """
        differences = [*self._differences(platform, toolchain, job)]
        return "; ".join([*differences, *(self._other_versions(platform, toolchain, job) if versions else ())])

    def _differences(self, platform: str, toolchain: str, job: Mapping[str, str]) -> Iterator[str]:
        yield from _start_time(job.get("started", ""), self.now)
        if self.checkout and self.checkout.root:
            yield from _before_commit(job, self.checkout.root)
        if self.checkout and (difference := self.checkout.difference(platform, toolchain, job)):
            yield difference
        pins = self._pins(platform, toolchain)
        known, lock = {pins.sha256, pins.of_gpu} - {""}, job.get("lock.sha256", "")
        if known and lock not in known and (lock or job.get("executor") not in WITHOUT_LOCK):
            yield f"it was measured with another {pins.lock} (sha256 {lock[:12] or 'not said'})"

    def _other_versions(self, platform: str, toolchain: str, job: Mapping[str, str]) -> Iterator[str]:
        pins, versions = self._pins(platform, toolchain), versions_of(job)
        if pins.requires and not versions:
            yield "it names no versions"
        for text in pins.requires if versions else ():
            if not satisfies([text], versions):
                yield f"its versions do not meet {text}"

    def _pins(self, platform: str, toolchain: str) -> Pins:
        return self.entries.get((platform, toolchain)) or self.toolchains.get(toolchain) or Pins("", "", ())


def present(matrix: Matrix, root: Path, now: datetime | None = None) -> Present:
    """Return the present state of the checkout at ``root``."""

    def pins(lock: str, toolchain: str, kind: str) -> Pins:
        files = [lock_file(root, lock, one) for one in (CPU, kind)] if kind != OWN else []
        first, *further = [_sha256(file) for file in dict.fromkeys(files)] or [""]
        return Pins(lock, first, tuple(matrix.toolchains[toolchain].requires), *further)

    toolchains = {name: pins(toolchain.lock, name, CPU) for name, toolchain in matrix.toolchains.items()}
    entries = {
        (name, toolchain): pins(matrix.lock_of(name, toolchain), toolchain, vendor_named(platform.device).build)
        for name, platform in matrix.platforms.items()
        for toolchain in platform.by_toolchain
        if toolchain in matrix.toolchains
    }
    return Present(now or datetime.now(UTC), Checkout(matrix, root), toolchains, entries)


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


def _before_commit(job: Mapping[str, str], root: Path) -> Iterator[str]:
    """Yield why a job cannot have tested its commit, if the checkout knows when that was made."""
    name, started = job.get("commit", "").removesuffix("+changes"), _moment(job.get("started", ""))
    made = git.made(root, name)
    if made and started and started < made - CLOCKS_DIFFER:
        yield f"it started at {job['started']}, before its commit {name[:12]} was made ({made:%Y-%m-%d %H:%M} UTC)"


def _moment(started: str) -> datetime | None:
    """Return the time that a text says, in UTC where it names no zone; None if it cannot be read."""
    try:
        moment = datetime.fromisoformat(started)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _sha256(path: Path) -> str:
    """Return the digest of a file; empty if it is not there."""
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
