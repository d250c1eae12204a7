"""Say what the environments of jobs were made from: the lock that was installed, or what there was without one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from packaging.utils import canonicalize_name

from kernel_matrix.base.words import some
from kernel_matrix.config.locks import lock_file, pins
from kernel_matrix.config.model import Matrix
from kernel_matrix.store.record import versions_of
from kernel_matrix.vendors.builds import CPU, OWN, public
from kernel_matrix.vendors.registry import vendor_named

_SHOWN = 8  # distributions that are named


@dataclass(frozen=True)
class MadeFrom:
    """The locks of a matrix, and what jobs say of their environments. Without a folder no lock is read."""

    matrix: Matrix
    root: Path | None
    _known: dict[tuple[str, ...], str] = field(default_factory=dict, repr=False)

    def of(self, platform: str, toolchain: str, jobs: Iterable[Mapping[str, str]]) -> str:
        """Return it for the jobs of a toolchain on a platform; without an environment, the lock of today."""
        own = canonicalize_name(self.matrix.package.name)  # its version is known without an environment
        known = (job for job in jobs if {canonicalize_name(name) for name in versions_of(job)} - {own})
        said = dict.fromkeys(self._of_job(platform, toolchain, job) for job in known)
        return " and ".join(said) or self._planned(platform, toolchain)

    def _planned(self, platform: str, toolchain: str) -> str:
        vendor = vendor_named(self.matrix.platforms[platform].device)
        if vendor.build == OWN:
            return f"none: no index has the builds for {vendor.title}"
        return self._name(self.matrix.lock_of(platform, toolchain), vendor.build)

    def _of_job(self, platform: str, toolchain: str, job: Mapping[str, str]) -> str:
        key = (
            platform,
            toolchain,
            *(job.get(name, "") for name in ("lock", "lock.sha256", "environment.sha256", "device")),
        )
        if key not in self._known:
            named = self.matrix.lock_of(platform, toolchain)
            vendor = vendor_named(self.matrix.platforms[platform].device)
            kind = vendor.build if vendor.gpu and job.get("device", "none") != "none" else CPU
            made = job.get("lock") or (self._name(named, kind) if job.get("lock.sha256") else "")
            differences = self._compared(made or self._name(named, kind), job)
            self._known[key] = f"{made}{differences}" if made else f"none{differences}"
        return self._known[key]

    def _name(self, lock: str, kind: str) -> str:
        if self.root is None or kind == OWN:
            return lock
        return lock_file(self.root, lock, kind).relative_to(self.root).as_posix()

    def _compared(self, name: str, job: Mapping[str, str]) -> str:
        """Return how an environment differs from a lock; nothing where it does not, or where the lock was another."""
        path = self.root / name if self.root else None
        if path is None or not path.is_file():
            return ""
        digest = job.get("lock.sha256", "")
        if digest and digest != sha256(path.read_bytes()).hexdigest():
            return f" (sha256 {digest[:12]}, another than today's)"
        pinned = pins(path)
        versions: dict[str, str] = {canonicalize_name(key): value for key, value in versions_of(job).items()}
        same = [one for one, version in pinned.items() if public(versions.get(one, "")) == public(version)]
        own = canonicalize_name(self.matrix.package.name)
        besides = [f"{one} {version}" for one, version in versions.items() if digest and one not in (own, *pinned)]
        if digest and len(same) == len(pinned) and not besides:
            return ""
        how = ", {} of {} as pinned" if digest else ": {} of {} as " + name
        return f"{how.format(len(same), len(pinned))}{''.join(_others(pinned, versions, besides))}"


def _others(pinned: Mapping[str, str], versions: Mapping[str, str], besides: Sequence[str]) -> Iterator[str]:
    """Yield the versions that are not those of a lock, what is not there, and what is there ``besides``."""
    other = [f"{name} {versions[name]} ({version})" for name, version in pinned.items()
             if name in versions and public(versions[name]) != public(version)]  # fmt: skip
    absent = [f"{name} {version}" for name, version in pinned.items() if name not in versions]
    for word, found in (("other", other), ("not there", absent), ("not pinned", besides)):
        if found:
            yield f"; {word}: {some(found, _SHOWN)}"
