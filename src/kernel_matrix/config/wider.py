"""Compare two lists of requirements: whether one allows versions that the other does not. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version


def is_wider(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether some versions meet all requirements of ``after`` and not all of ``before``.

    Between two versions that a requirement names it is met by all versions or by none. So it is enough to try the
    named ones, their neighbours, and one beyond them.
    """
    old, new = _by_name(before), _by_name(after)
    for name, specifiers in old.items():
        others = new.get(name, SpecifierSet())
        for version in _samples([*specifiers, *others]):
            if others.contains(version, prereleases=True) and not specifiers.contains(version, prereleases=True):
                return True
    return False


def _by_name(texts: Iterable[str]) -> dict[str, SpecifierSet]:
    by_name: dict[str, SpecifierSet] = {}
    for requirement in map(Requirement, texts):
        name = canonicalize_name(requirement.name)
        by_name[name] = by_name.get(name, SpecifierSet()) & requirement.specifier
    return by_name


def _samples(specifiers: Iterable[object]) -> Iterator[Version]:
    """Yield the versions that specifiers name, the ones next to them, the least and a very late one."""
    yield Version("0.dev0")
    yield Version("999999")
    for specifier in specifiers:
        try:
            version = Version(str(getattr(specifier, "version", "")).removesuffix(".*"))
        except InvalidVersion:  # === takes any text
            continue
        yield version
        release = version.release
        yield Version(f"{version.base_version}.0.0.1")
        for length in range(1, len(release) + 1):
            for step in (1, -1):
                near = (*release[: length - 1], max(release[length - 1] + step, 0))
                text = ".".join(map(str, near))
                yield from (Version(text), Version(f"{text}.dev0"), Version(f"{text}.99999"))
        if not (version.is_prerelease or version.is_postrelease):
            yield from (Version(f"{version}.dev0"), Version(f"{version}.post1"), Version(f"{version}rc1"))
