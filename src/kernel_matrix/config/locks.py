"""The lock files of a matrix: which one an environment is made from, and what it pins.

matrix.yaml names a lock as ``NAME.txt``. Where a distribution in it has a build for each kind of machine, there is a
file for each kind (``NAME.cpu.txt``, ``NAME.cuda.txt``); otherwise there is ``NAME.txt`` alone. All of them are
resolved from ``NAME.in``, or from ``NAME.KIND.in`` where one kind needs something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from packaging.markers import InvalidMarker, Marker, UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernel_matrix.config.model import Matrix
from kernel_matrix.vendors import builds
from kernel_matrix.vendors.registry import vendor_named

_PIN = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*===?\s*(?P<version>[^\s;\\]+)(\s*;(?P<marker>[^\n#\\]+))?",
    re.MULTILINE,
)
# What is not from an index: NAME @ ADDRESS.
_AT = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*@\s*(?P<version>[^\s\\]+)(\s+;(?P<marker>[^\n#\\]+))?", re.MULTILINE
)
_INCLUDED = re.compile(r"^\s*(?:-r|--requirement)[\s=]+(\S+).*$", re.MULTILINE)
_CONSTRAINTS = re.compile(r"^(\s*(?:-c|--constraint)[\s=]+)(\S+)", re.MULTILINE)
_HEADER = re.compile(r"^# (?:for (?P<kind>\w+), )?from (?P<source>\S+) \(sha256 (?P<digest>[0-9a-f]+)\)$", re.MULTILINE)

PYTHONS = ("3.11", "3.12", "3.13")  # what the harness is for


@dataclass(frozen=True)
class Origin:
    """The first line of a lock: the kind that it was made for (empty: any), its source, and the digest of that."""

    kind: str
    source: str
    digest: str

    def line(self) -> str:
        """Return it as the line."""
        return f"# {f'for {self.kind}, ' if self.kind else ''}from {self.source} (sha256 {self.digest})\n"


def origin_of(text: str) -> Origin | None:
    """Return what the text of a lock says of itself; None where nothing: a person or another tool wrote it."""
    match = _HEADER.search(text)
    return Origin(match["kind"] or "", match["source"], match["digest"]) if match else None


@cache
def of_kind(lock: str, kind: str) -> str:
    """Return the name of a lock for one kind of build."""
    return lock if kind_in(lock) else str(Path(lock).with_suffix(f".{kind}.txt"))


def kind_in(lock: str) -> str:
    """Return the kind that stands in the name of a lock; empty if none does."""
    kind = Path(Path(lock).stem).suffix.removeprefix(".")
    return kind if kind in builds.kinds() else ""


def lock_file(root: Path, lock: str, kind: str = builds.CPU) -> Path:
    """Return the file of a lock for a kind of build, by the name that matrix.yaml has. It need not exist."""
    if any((root / of_kind(lock, one)).is_file() for one in builds.kinds()):
        return root / of_kind(lock, kind)
    return root / lock


def files_of(root: Path, lock: str) -> list[Path]:
    """Return the files of a lock that exist: one for each kind of build, or the one for all."""
    of_kinds = [root / name for name in dict.fromkeys(of_kind(lock, kind) for kind in builds.kinds())]
    return [path for path in of_kinds if path.is_file()] or [path for path in (root / lock,) if path.is_file()]


def names_of(lock: str) -> tuple[str, ...]:
    """Return the names of all files of a lock, whether they exist or not, with those that it is resolved from."""
    locks = dict.fromkeys((lock, *(of_kind(lock, kind) for kind in builds.kinds())))
    return (*locks, *(str(Path(one).with_suffix(".in")) for one in locks))


def source_of(lock: Path) -> Path:
    """Return the file that a lock is resolved from, which need not exist."""
    own = lock.with_suffix(".in")
    return own.with_name(f"{Path(lock.stem).stem}.in") if kind_in(lock.name) and not own.is_file() else own


def requirements_in(source: Path) -> str:
    """Return the requirements of a file and of the files that it includes."""
    text = source.read_text(encoding="utf-8")
    text = _CONSTRAINTS.sub(lambda match: f"{match[1]}{source.parent.resolve() / match[2]}", text)
    return _INCLUDED.sub(lambda match: requirements_in(source.parent / match[1]).rstrip("\n"), text)


def digest_of(source: Path) -> str:
    """Return the digest of the requirements that a lock is resolved from."""
    return sha256(requirements_in(source).encode()).hexdigest()[:12]


def pins_in(text: str) -> dict[str, str]:
    """Return the pinned versions in the text of a lock by canonical name, as they are on Linux.

    Of a distribution that has another version for each Python it is the first one's.
    """
    pins: dict[str, str] = {}
    for match in _PIN.finditer(text):
        if match["marker"] is None or _holds(match["marker"].strip()):
            pins.setdefault(canonicalize_name(match["name"]), match["version"])
    return pins


def twice_in(text: str) -> dict[str, list[str]]:
    """Return the distributions of which one Python would get several versions, each with its versions."""
    found: dict[str, list[str]] = {}
    for python in PYTHONS:
        versions: dict[str, dict[Version | str, str]] = {}
        for match in (*_PIN.finditer(text), *_AT.finditer(text)):
            if match["marker"] is None or _holds(match["marker"].strip(), (python,)):
                try:
                    key: Version | str = Version(match["version"])  # 2.0 is 2.0.0
                except InvalidVersion:
                    key = match["version"]
                versions.setdefault(canonicalize_name(match["name"]), {}).setdefault(key, match["version"])
        found |= {name: [*of_name.values()] for name, of_name in versions.items() if len(of_name) > 1}
    return found


@cache
def _holds(marker: str, pythons: tuple[str, ...] = PYTHONS) -> bool:
    """Return whether a marker holds on Linux for one of these Pythons."""
    machine = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": "x86_64"}
    of_pythons = ({"python_version": one, "python_full_version": f"{one}.0"} for one in pythons)
    try:
        return any(Marker(marker).evaluate({**machine, **python}) for python in of_pythons)
    except (InvalidMarker, UndefinedComparison, UndefinedEnvironmentName):
        return True


def floating_in(text: str) -> list[str]:
    """Return the requirements in the text of a lock that are no pins: the index decides what they bring."""
    found = []
    for line in text.splitlines():
        try:
            one = Requirement(re.sub(r"\s#.*|\\$", "", line)) if re.match(r"[A-Za-z0-9]", line) else None
        except InvalidRequirement:
            continue
        if (
            one
            and not one.url
            and not any(spec.operator in ("==", "===") and "*" not in spec.version for spec in one.specifier)
        ):
            found.append(str(one))
    return found


def pins(lock: Path) -> dict[str, str]:
    """Return the pinned versions of a lock file by canonical name."""
    return dict(_pins_at(lock, lock.stat().st_mtime_ns))


@cache
def _pins_at(lock: Path, _: int) -> dict[str, str]:
    return pins_in(lock.read_text(encoding="utf-8"))


def all_pins(root: Path, lock: str) -> dict[str, str]:
    """Return what the files of a lock pin together; where they differ, what who has no GPU gets."""
    return {name: version for file in reversed(files_of(root, lock)) for name, version in pins(file).items()}


def kinds_of(matrix: Matrix) -> Mapping[str, tuple[str, ...]]:
    """Return by lock the kinds of builds that a platform installs from it, the one that leads first.

    Who compiles for a GPU that is not there, or emulates it, has the builds for a CPU.
    """
    asked: dict[str, set[str]] = {lock: set() for lock in matrix.locks}
    for name, platform in matrix.platforms.items():
        vendor = vendor_named(platform.device)
        for entry in platform.entries if vendor.build != builds.OWN else ():
            if (toolchain := matrix.toolchains.get(entry.toolchain)) is None:
                continue
            kinds = asked[matrix.lock_of(name, entry.toolchain)]
            kinds |= {vendor.build} if entry.runs else {builds.CPU}
            if vendor.compiles_without_device and (toolchain.ahead_of_time or entry.emulator):
                kinds.add(builds.CPU)
    used = {entry.toolchain for platform in matrix.platforms.values() for entry in platform.entries}
    for name, toolchain in matrix.toolchains.items():
        if name not in used:
            asked[toolchain.lock].add(builds.CPU)
    order = (builds.LEADER, *builds.kinds())
    return {lock: tuple(sorted(kinds, key=order.index)) for lock, kinds in asked.items()}
