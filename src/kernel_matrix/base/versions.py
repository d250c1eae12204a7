"""Compare installed versions with requirements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def satisfies(requirements: Iterable[str], versions: Mapping[str, str]) -> bool:
    """Return whether ``versions``, by name, meet every requirement (PEP 508).

    Names are compared in their canonical form. A prerelease counts as its version. A distribution that is not among
    ``versions`` does not satisfy a requirement.
    """
    wanted = [*map(Requirement, requirements)]
    installed = {canonicalize_name(name): version for name, version in versions.items()} if wanted else {}
    for requirement in wanted:
        version = installed.get(canonicalize_name(requirement.name))
        if version is None or not requirement.specifier.contains(version, prereleases=True):
            return False
    return True
