"""The builds of PyTorch for each kind of machine, and what each asks for by itself (``builds.toml``)."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from kernel_matrix.base.versions import TRITON

CPU, LEADER = "cpu", "cuda"  # who has no GPU installs the first; the others have the versions of the second
OWN = "own"  # the kind of vendors whose PyTorch is a build of their own, which no index here has
_TABLE = Path(__file__).with_name("builds.toml")


@functools.cache
def _table() -> Mapping[str, Any]:
    return tomllib.loads(_TABLE.read_text(encoding="utf-8"))


def distribution() -> str:
    """Return the name of the distribution that has several builds."""
    return str(_table()["distribution"])


def kinds() -> tuple[str, ...]:
    """Return the kinds of builds that a lock can be made for."""
    return tuple(_table()["builds"])


def tritons() -> tuple[str, ...]:
    """Return the distributions that write the folder ``triton``, one of which an environment can have."""
    return (*TRITON, *_table()["forks_of_triton"])


def source_of(kind: str) -> str:
    """Return where the requirements of a build were taken from."""
    return str(_table()["builds"][kind]["source"])


def platform_of(kind: str, machine: str) -> str:
    """Return uv's word for the machines that a build is for; ``machine`` is the word of those with Linux."""
    return str(_table()["builds"][kind].get("platform", machine))


def variables_of(kind: str) -> Mapping[str, str]:
    """Return the variables that uv needs besides for those machines."""
    variables: Mapping[str, str] = _table()["builds"][kind].get("variables", {})
    return variables


def backend_of(kind: str, version: str) -> str:
    """Return the index that uv takes a build from, which is its local version too; empty for the build on PyPI."""
    build = _table()["builds"][kind]
    return str(build.get("backends", {}).get(version) or build.get("backend", ""))


def versions_of(kind: str) -> tuple[str, ...]:
    """Return the versions whose requirements are written down, the newest first."""
    return tuple(sorted(_table()["builds"][kind]["requires"], key=Version, reverse=True))


def added_by(kind: str, version: str) -> tuple[Requirement, ...] | None:
    """Return what this build asks for and the CPU's does not; None where nobody has written it down."""
    texts = _table()["builds"][kind]["requires"].get(public(version))
    return None if texts is None else tuple(map(Requirement, texts))


def requirements_of(kind: str, version: str) -> tuple[Requirement, ...] | None:
    """Return all that a build asks for; None where nobody has written it down."""
    added = added_by(kind, version)
    if added is None:
        return None
    common = _table()["common"]
    since = max((first for first in common if Version(first) <= Version(version)), key=Version)
    return (*map(Requirement, common[since]), *added)


def brought_by(requirements: Iterable[Requirement]) -> Iterator[str]:
    """Yield the names of all that comes with requirements of a build, those that it asks for in turn too."""
    for one in requirements:
        yield canonicalize_name(one.name)
        further = _table()["brings"].get(one.name, {})
        yield from (further[extra] for extra in ("", *sorted(one.extras)) if extra in further)


def triton_of(kind: str, version: str) -> Requirement:
    """Return what a build asks of Triton: the name that it has for this kind of machine, and its versions."""
    own = [one for one in added_by(kind, version) or () if one.name in tritons()]
    return own[0] if own else Requirement("triton")


def triton_among(names: Iterable[str]) -> str | None:
    """Return the distribution among these that is Triton; None if there is none."""
    return next((name for name in tritons() if name in {*map(canonicalize_name, names)}), None)


def excluded(pins: Mapping[str, str]) -> bool:
    """Return whether ``triton`` must not come in: a package may ask for it, and the pins have it by another name."""
    return "triton" not in pins and any(name in pins for name in tritons() if name.endswith(("-rocm", "-xpu")))


def is_of_another(version: str, kind: str) -> bool:
    """Return whether the local part of a version, such as ``+cpu``, names the build for another kind."""
    local = version.partition("+")[2]
    word = _table()["builds"][kind].get("local")
    return bool(local) and not (word and re.fullmatch(word, local))


def public(version: str) -> str:
    """Return a version without its local part, such as ``+cpu``."""
    try:
        return Version(version).public
    except InvalidVersion:
        return version
