"""Compare installed versions with requirements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name


def satisfies(requirements: Iterable[str], versions: Mapping[str, str]) -> bool:
    """Return whether ``versions``, by name, meet every requirement (PEP 508).

    Names are compared in their canonical form. A prerelease counts as its version. A distribution that is not among
    ``versions`` does not satisfy a requirement.
    """
    installed = by_name(versions)
    return all(_is_met(Requirement(text), installed) for text in requirements)


def by_name(versions: Mapping[str, str]) -> dict[NormalizedName, str]:
    """Return ``versions`` by the canonical names of their distributions."""
    return {canonicalize_name(name): version for name, version in versions.items()}


def required(requirements: Iterable[str]) -> tuple[NormalizedName, ...]:
    """Return the canonical name of the distribution that each requirement is about, in their order."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)


def _is_met(requirement: Requirement, installed: Mapping[NormalizedName, str]) -> bool:
    version = installed.get(canonicalize_name(requirement.name))
    return version is not None and requirement.specifier.contains(version, prereleases=True)
