"""The names of distributions in their canonical form, and those that stay while a sweep moves one package."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from kernel_matrix.config.model import Matrix

# What a job itself imports. These pins of a toolchain's lock stay while one package moves.
OF_A_JOB = ("numpy", "pytest", "ml-dtypes")


def by_name(versions: Mapping[str, str]) -> dict[NormalizedName, str]:
    """Return ``versions`` by the canonical names of their distributions."""
    return {canonicalize_name(name): version for name, version in versions.items()}


def required(requirements: Iterable[str]) -> tuple[NormalizedName, ...]:
    """Return the canonical name of the distribution that each requirement is about, in their order."""
    return tuple(canonicalize_name(Requirement(text).name) for text in requirements)


def picked(matrix: Matrix, package: str, pinned: Mapping[str, str], versions: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of interest that the installer picked itself: neither pinned nor of a companion."""
    settled = {canonicalize_name(name) for name in (package, *pinned)}
    patterns = staying(matrix) or OF_A_JOB
    present = by_name(versions)
    names = (canonicalize_name(name) for name in matrix.package.distributions)
    return {
        name: present[name]
        for name in names
        if name in present and name not in settled and not any(fnmatch.fnmatch(name, one) for one in patterns)
    }


def staying(matrix: Matrix) -> tuple[str, ...] | None:
    """Return the patterns of the distributions that stay; None where matrix.yaml does not say which."""
    companions = matrix.package.companions
    return None if companions is None else (*OF_A_JOB, *map(canonicalize_name, companions))
