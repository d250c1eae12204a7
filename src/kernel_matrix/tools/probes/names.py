"""The names of distributions in their canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name


def by_name(versions: Mapping[str, str]) -> dict[NormalizedName, str]:
    """Return ``versions`` by the canonical names of their distributions."""
    return {canonicalize_name(name): version for name, version in versions.items()}


def required(requirements: Iterable[str]) -> tuple[NormalizedName, ...]:
    """Return the canonical name of the distribution that each requirement is about, in their order."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)
