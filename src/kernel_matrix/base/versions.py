"""Compare installed versions with requirements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Triton has another name for each kind of machine, and the same folder: who asks for the first may have any of them.
TRITON = ("triton", "triton-rocm", "triton-xpu", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu")


def other_names(name: str) -> tuple[str, ...]:
    """Return all names under which a distribution that is asked for may be installed, its own first."""
    canonical = canonicalize_name(name)
    return TRITON if canonical == TRITON[0] else (canonical,)


def satisfies(requirements: Iterable[str], versions: Mapping[str, str]) -> bool:
    """Return whether ``versions``, by name, meet every requirement (PEP 508).

    Names are compared in their canonical form. A prerelease counts as its version. A distribution that is not among
    ``versions`` does not satisfy a requirement.
    """
    wanted = [*map(Requirement, requirements)]
    installed: dict[str, str] = (
        {canonicalize_name(name): version for name, version in versions.items()} if wanted else {}
    )
    for requirement in wanted:
        found = [installed[name] for name in other_names(requirement.name) if name in installed]
        if not found or not all(requirement.specifier.contains(version, prereleases=True) for version in found):
            return False
    return True
