"""The subject of a sweep or a bisection: a package, the probes and the case to run, and the pins that stay."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from kernel_matrix.base.errors import UserError
from kernel_matrix.base.paths import without_folders
from kernel_matrix.config.locks import lock_file, pins, requirements_in, source_of
from kernel_matrix.config.model import Matrix, Platform, Toolchain
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.distributions import OF_A_JOB, required, staying
from kernel_matrix.probes.probe import Probe, select_probes
from kernel_matrix.vendors.machine import Machine

_NAME = re.compile(r"^(?P<name>[A-Za-z0-9][\w.-]*)", re.MULTILINE)


@dataclass(frozen=True)
class Subject:
    """A package whose versions are tried, in the toolchain whose other pins stay, and what is asked of each version.

    ``environment`` are variables of the cases. ``is_axis`` is whether matrix.yaml names the versions: then every pin
    stays that no version forces to move.
    """

    package: str
    project: Project
    machine: Machine
    toolchain: str | None
    probes: tuple[Probe, ...]
    cases: tuple[str, ...] = ()
    discard: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    is_axis: bool = False
    say: Callable[[str], None] = print

    @property
    def folder(self) -> Path:
        """The folder of its environments and locks."""
        return self.project.build / "sweeps" / self.name

    @property
    def name(self) -> str:
        """The name of its folder and of its result."""
        return f"{self.toolchain}-{self.package}" if self.is_axis else self.package

    def companions(self, pinned: Sequence[str] = ()) -> dict[str, str]:
        """Return the pins of the toolchain's lock that stay, without those that are ``pinned`` otherwise.

        They are the distributions that the toolchain asks for, or of these what matrix.yaml names and a job imports. A
        lock that was resolved from nothing does not say what was asked for; there the toolchain's ``requires`` does.
        """
        asked = _asked_for(self.lock) if self.lock else set()
        patterns = staying(self.project.matrix)
        if patterns is None:
            patterns = ("*",)
            if self.lock and not source_of(self.lock).exists():
                asked = {*OF_A_JOB, *self._required()}
        return {
            name: version
            for name, version in self.preferred(pinned).items()
            if name in asked and any(fnmatch.fnmatch(name, one) for one in patterns)
        }

    def preferred(self, pinned: Sequence[str] = ()) -> dict[str, str]:
        """Return all pins of the toolchain's lock, without the package and those that are ``pinned`` otherwise."""
        moved = {canonicalize_name(name) for name in (self.package, *pinned)}
        locked = [pins(lock) for lock in reversed(self._locks)]
        return {name: version for pinned in locked for name, version in pinned.items() if name not in moved}

    @property
    def lock(self) -> Path | None:
        """The lock of the toolchain; None where the package is in none."""
        if self.toolchain is None:
            return None
        return lock_file(self.project.root, self.project.matrix.toolchains[self.toolchain].lock)

    @property
    def _locks(self) -> list[Path]:
        """The lock of the toolchain, and the locks of its platforms if its versions are an axis."""
        matrix, locks = self.project.matrix, [self.lock] if self.lock else []
        entries = (entry for platform in matrix.platforms.values() for entry in platform.entries)
        if self.is_axis:
            own = (one.lock for one in entries if one.toolchain == self.toolchain and one.lock)
            locks += [lock_file(self.project.root, lock) for lock in own]
        return list(dict.fromkeys(locks))

    def asked(self, pinned: Sequence[str] = ()) -> dict[str, str]:
        """Return the pins of all that the locks of the toolchain ask for, without those ``pinned`` otherwise."""
        names = {name for lock in self._locks for name in _asked_for(lock)}
        return {name: version for name, version in self.preferred(pinned).items() if name in names}

    @property
    def keeps_the_rest(self) -> bool:
        """True if a distribution that no version has to move stays: matrix.yaml names no companions."""
        return self.is_axis or staying(self.project.matrix) is None

    def _required(self) -> set[str]:
        assert self.toolchain
        texts = self.project.matrix.toolchains[self.toolchain].requires
        return set(required(texts))

    def toolchain_with(self, lock: Path) -> Toolchain:
        """Return the toolchain as it is with another lock, whose packages may be for other Pythons."""
        if self.toolchain:
            changes = {"lock": str(lock), "requires": [], "python": ""}
            return self.project.matrix.toolchains[self.toolchain].model_copy(update=changes)
        return Toolchain(backend="none", lock=str(lock), requires=[])

    def matrix_with(self, lock: Path, packages: Path) -> Matrix:
        """Return the matrix with another lock of the toolchain, whose packages lie in a folder.

        Its code is not emulated where its GPU is not: that takes long.
        """
        assert self.toolchain
        matrix = self.project.matrix
        variables = {name: text.replace("{packages}", str(packages)) for name, text in self.environment.items()}
        changes: dict[str, Any] = {
            "toolchains": {**matrix.toolchains, self.toolchain: self.toolchain_with(lock)},
            "package": matrix.package.model_copy(update={"environment": {**matrix.package.environment, **variables}}),
        }
        if self.is_axis:
            changes["platforms"] = {name: self._without_locks(one) for name, one in matrix.platforms.items()}
        return matrix.model_copy(update=changes)

    def _without_locks(self, platform: Platform) -> Platform:
        """Return a platform whose entries of the toolchain have neither a lock nor an emulator."""
        entries = [
            entry.model_copy(update={"lock": None, "emulator": None}) if entry.toolchain == self.toolchain else entry
            for entry in platform.entries
        ]
        fields = {name: getattr(platform, name) for name in Platform.model_fields}
        return Platform.model_construct(**{**fields, "toolchains": entries})

    def portable(self, text: str) -> str:
        """Return a text without this machine's folders."""
        names = {str(self.project.build): "build", str(self.project.root): "."}
        return without_folders(text, names, packages=True)


def make_subject(
    project: Project,
    package: str,
    machine: Machine,
    *,
    probes: Sequence[str] = (),
    cases: Sequence[str] = (),
    discard: bool = False,
) -> Subject:
    """Return what is to be tried: the named probes, or all probes that are about the package, and the cases.

    Raises:
        UserError: a case is of no toolchain whose lock is made for the package, or there is no such probe.
    """
    toolchain = toolchain_of(project.matrix, project.root, package)
    for case in cases:
        if toolchain is None or f"/{toolchain}/" not in case:
            raise UserError(
                f"--case {case}: it must be a case or cell of {toolchain or 'a toolchain'}, "
                f"whose lock is made for {package}."
            )
    chosen: tuple[Probe, ...] = ()
    if project.matrix.package.probes is not None:
        every = select_probes(project.matrix, project.root, probes)
        chosen = tuple(probe for probe in every if probes or _is_about(probe, package))
    return Subject(package, project, machine, toolchain, chosen, tuple(cases), discard)


def toolchain_of(matrix: Matrix, root: Path, package: str) -> str | None:
    """Return the toolchain of the last lock that is made for this package; None if there is none.

    Of toolchains with one lock it is the first.
    """
    name_of_package = canonicalize_name(package)
    by_lock: dict[str, str] = {}
    for name, toolchain in matrix.toolchains.items():
        if name_of_package in _asked_for(lock_file(root, toolchain.lock)):
            by_lock.setdefault(toolchain.lock, name)
    return next(reversed(by_lock.values()), None)


def _is_about(probe: Probe, package: str) -> bool:
    return canonicalize_name(package) in required(probe.requires)


def _asked_for(lock: Path) -> set[str]:
    """Return the distributions that a toolchain itself asks for, by canonical name: all of a lock without a source."""
    source = source_of(lock)
    text = requirements_in(source) if source.exists() else lock.read_text(encoding="utf-8")
    return {canonicalize_name(match["name"]) for match in _NAME.finditer(text)}
