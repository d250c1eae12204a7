"""Resolve a file of requirements to a lock for each kind of build, by uv.

The builds for CUDA are resolved first; the others get the same versions, so that who has no GPU tests what they have
who have one. An index has the metadata of one build of PyTorch. For the other kinds uv finds a wheel of nothing but
metadata, made from the table of builds: it reads no more of a wheel when it resolves, and nothing is installed from it.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from kernel_matrix.adopt.pinned.repository import Pins
from kernel_matrix.adopt.uv_compile import Asked, compiled
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.files import write_atomically
from kernel_matrix.base.wheels import wheels_of
from kernel_matrix.config import locks
from kernel_matrix.diagnosis import diagnose
from kernel_matrix.vendors import builds

NO_PINS = Pins()
PYTHONS = locks.PYTHONS
OLDEST_PYTHON = PYTHONS[0]


@dataclass(frozen=True)
class Locks:
    """The locks of one source by their kind; the kind is empty where no distribution has builds, and one lock does."""

    texts: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def names(self, lock: str) -> dict[str, str]:
        """Return the texts by the names of their files; ``lock`` is the name that matrix.yaml has."""
        return {locks.of_kind(lock, kind) if kind else lock: text for kind, text in self.texts.items()}

    def write(self, root: Path, lock: str) -> list[str]:
        """Write all files, and take away files of this lock that nothing is installed from any more."""
        named = self.names(lock)
        for name, text in named.items():
            write_atomically(root / name, text)
        stale = [lock] if "" not in self.texts else [locks.of_kind(lock, kind) for kind in builds.kinds()]
        removed = [name for name in stale if name not in named and (root / name).is_file()]
        for name in removed:
            (root / name).unlink()
        return [*(f"wrote {name}" for name in named), *(f"removed {name}" for name in removed)]


def resolve(
    source: Path,
    kinds: Sequence[str],
    *,
    pythons: Sequence[str] = PYTHONS,
    pins: Pins = NO_PINS,
) -> Locks:
    """Return the locks of ``source`` for these kinds of builds: each pins all that the Pythons need.

    The first Python decides the versions. What a later one needs besides is pinned too, and a note says for which one
    there is nothing to install. Of several versions of PyTorch the newest that all kinds can have is taken, but the
    version of a wheel on this machine comes first. ``pins`` come before both; those that do not go with the rest are
    named in a note.

    Raises:
        UserError: a kind cannot be resolved; uv's words.
    """
    resolution = _Resolution(source, tuple(kinds), tuple(pythons), pins)
    together = resolution.together()
    try:
        return _resolved(resolution, together)
    except UserError as error:
        if not together:
            raise
        made = _resolved(resolution, [])
        return replace(made, notes=(f"not with all pins: {error}", *made.notes))


def with_remedy(error: UserError) -> UserError:
    """Return what was said of a lock that cannot be resolved, with the remedy where the diagnosis knows one."""
    found = diagnose(str(error), "install")
    return UserError(f"{error} Remedy: {found.remedy}" if found else str(error))


def _resolved(resolution: _Resolution, limits: Sequence[str]) -> Locks:
    """Return the locks with the first version of PyTorch that all kinds can have within the limits.

    Raises:
        UserError: there is none; uv's words.
    """
    fault, named = "", builds.distribution()
    is_pinned = any(canonicalize_name(Requirement(limit).name) == named for limit in limits)
    for version in _attempts(resolution.source, resolution.kinds, resolution.pins if is_pinned else NO_PINS):
        try:
            return resolution.with_torch(version, limits)
        except UserError as error:
            fault = str(error) if not fault or not version else fault
    raise UserError(f"{fault}{_hint(resolution.source, resolution.kinds)}")


def _attempts(source: Path, kinds: Sequence[str], pins: Pins) -> Iterator[str]:
    """Yield the versions of PyTorch to try; an empty one leaves it to uv."""
    named = builds.distribution()
    here = dict.fromkeys(builds.public(version) for _, version in reversed(wheels_of(named)))
    wanted = pins.deciding().get(named, ())
    yield from (version for version in here if all(pin.admits(version) for pin in wanted))
    yield ""
    asked = _asked_of(source, named)
    known = (version for version in builds.versions_of(builds.LEADER) if _is_known(version, kinds))
    yield from (version for version in known if asked is None or version in asked)


def _is_known(version: str, kinds: Sequence[str]) -> bool:
    return all(builds.added_by(kind, version) is not None for kind in kinds)


def _asked_of(source: Path, name: str) -> SpecifierSet | None:
    """Return the versions that a file of requirements itself allows of a distribution; None if it does not name it."""
    path = source if source.is_file() else next(iter(sources(source)), source)
    for line in locks.requirements_in(path).splitlines():
        try:
            one = Requirement(line.partition(" #")[0].strip())
        except InvalidRequirement:
            continue
        if canonicalize_name(one.name) == name:
            return one.specifier
    return None


def sources(source: Path) -> list[Path]:
    """Return the files that a lock is resolved from, which exist."""
    own = [locks.source_of(source.with_suffix(f".{kind}.txt")) for kind in builds.kinds()]
    return [path for path in dict.fromkeys(own) if path.is_file()]


def _hint(source: Path, kinds: Sequence[str]) -> str:
    """Return which version of PyTorch goes with the Triton that is asked for on all kinds; empty if none does."""
    asked = _asked_of(source, "triton")
    exact = [one.version for one in asked or () if one.operator == "=="]
    for version in builds.versions_of(builds.LEADER) if exact else ():
        wanted = [builds.triton_of(kind, version) for kind in kinds if kind != builds.CPU]
        if wanted and _is_known(version, kinds) and all(exact[0] in one.specifier for one in wanted):
            return (
                f" {builds.distribution()} {version} goes with triton {exact[0]} on {', '.join(sorted(kinds))}: "
                f"write {builds.distribution()}=={version}."
            )
    return ""


@dataclass(frozen=True)
class _Resolution:
    """One try: the source, and what its locks are for."""

    source: Path
    kinds: tuple[str, ...]
    pythons: tuple[str, ...]
    pins: Pins

    def together(self) -> list[str]:
        """Return the pins that go with each other and with the requirements, as constraints.

        Those that uv names in what it says against them are left out: they are preferences, as all are.
        """
        wanted = self.pins.constraints()
        while wanted:
            fault = compiled(self._asked(builds.LEADER, {}, [line for lines in wanted.values() for line in lines]))[1]
            named = [name for name in wanted if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", fault)]
            if not fault:
                break
            wanted = {name: lines for name, lines in wanted.items() if named and name not in named}
        return [line for lines in wanted.values() for line in lines]

    def with_torch(self, version: str, limits: Sequence[str]) -> Locks:
        """Return the locks with this version of PyTorch; with an empty one, with uv's choice."""
        leader = self._text(builds.LEADER, [*limits, *([f"{builds.distribution()}=={version}"] if version else [])], {})
        pins = locks.pins_in(leader)
        if builds.distribution() not in pins:
            return self._finished({"": leader})
        texts = {kind: leader if kind == builds.LEADER else self._text(kind, [], pins) for kind in self.kinds}
        return self._finished(texts)

    def _text(self, kind: str, limits: Sequence[str], like: Mapping[str, str]) -> str:
        """Return the lock for a kind, ``like`` what the leader's lock pins.

        Raises:
            UserError: it cannot be resolved.
        """
        asked = self._asked(kind, like, limits)
        text, fault = compiled(asked)
        if fault and like:  # the same versions cannot be: an answer of its own, and a note that says so
            text, fault = compiled(self._asked(kind, {name: like[name] for name in [builds.distribution()]}, limits))
        if fault:
            where = f" for {kind}" if builds.distribution() in fault else ""
            raise UserError(f"{asked.source.name} cannot be resolved{where}: {fault}")
        return text

    def _asked(self, kind: str, like: Mapping[str, str], limits: Sequence[str], python: str = "") -> Asked:
        source = locks.source_of(self.source.with_suffix(f".{kind}.txt"))
        return Asked(
            source=source if source.is_file() else next(iter(sources(self.source)), self.source),
            kind=kind,
            python=python or self.pythons[0],
            like=like,
            limits=tuple(limits),
            preferred=self.pins.preferred(),
            machine=f"{_machine()}-manylinux_2_36",
        )

    def _finished(self, texts: Mapping[str, str]) -> Locks:
        """Return the locks with what later Pythons need besides, and the notes of all of them."""
        whole, notes = {}, list[str]()
        for kind, text in texts.items():
            further, faults = self._of_later_pythons(kind or builds.LEADER, text)
            notes += faults
            source = self._asked(kind or builds.LEADER, {}, ()).source
            origin = locks.Origin(kind, source.name, locks.digest_of(source))
            whole[kind] = f"{origin.line()}{text}{further}"
        lock = self.source.with_suffix(".txt").name
        pinned = {locks.of_kind(lock, kind) if kind else lock: _by_any_name(text) for kind, text in whole.items()}
        notes += [*_differences(whole), *(f"not kept: {sentence}" for sentence in self.pins.not_kept(pinned))]
        return Locks(whole, tuple(dict.fromkeys(notes)))

    def _of_later_pythons(self, kind: str, text: str) -> tuple[str, list[str]]:
        """Return the lines of what only later Pythons need, and for which ones nothing can be installed."""
        pins, lines, notes = locks.pins_in(text), "", list[str]()
        for python in self.pythons[1:]:
            found, fault = compiled(self._asked(kind, pins, (), python))
            if fault:
                notes.append(f"{self.source.name}: not for Python {python}: {fault}")
            new = {name: version for name, version in locks.pins_in(found).items() if name not in pins}
            lines += "".join(f"{name}=={version}\n    # for Python {python}\n" for name, version in new.items())
            pins |= new
        return lines, notes


def _differences(texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the distributions that who has no GPU gets in another version than who has one."""
    cpu = locks.pins_in(texts.get(builds.CPU, ""))
    for kind, text in texts.items():
        for name, version in locks.pins_in(text).items():
            if name in cpu and cpu[name] != version:
                yield f"{name} is {cpu[name]} for {builds.CPU}, and {version} for {kind}"


def _by_any_name(text: str) -> dict[str, str]:
    """Return the pins of a lock; Triton has its own name too where it comes by the name of a build."""
    pins = locks.pins_in(text)
    named = builds.triton_among(pins)
    return {"triton": pins[named], **pins} if named else pins


def _machine() -> str:
    return machine if (machine := platform.machine()) in ("x86_64", "aarch64") else "x86_64"
