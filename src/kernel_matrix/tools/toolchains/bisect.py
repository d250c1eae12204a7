"""Find the published version that changed the state of a probe or a cell, in log2 steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from packaging.utils import canonicalize_name
from packaging.version import Version

from kernel_matrix.base.errors import UserError
from kernel_matrix.probes.attempts import Attempt


@dataclass(frozen=True)
class TurningPoint:
    """The last version in the old state, the first one in a new state, and what else differs between the two."""

    last_good: Attempt
    first_bad: Attempt
    old: str
    new: str
    tried: tuple[str, ...]
    elsewhere: Mapping[str, tuple[str, str]]


def bisect(
    versions: Sequence[Version], attempt: Callable[[Version], Attempt], state: Callable[[Attempt], str], package: str
) -> TurningPoint:
    """Return the first of ``versions`` (oldest first) whose state differs from the first one's.

    Every bisection takes for granted that the state changes once between the two ends.

    Raises:
        UserError: both ends are in the same state, so that there is nothing to find.
    """
    attempts: dict[Version, Attempt] = {}

    def at(index: int) -> str:
        version = versions[index]
        if version not in attempts:
            attempts[version] = attempt(version)
        return state(attempts[version])

    low, high = 0, len(versions) - 1
    old = at(low)
    if at(high) == old:
        raise UserError(
            f"{package} {versions[low]} and {versions[high]} are in the same state: {old}. "
            "Name a --good and a --bad version that differ; a sweep shows them all."
        )
    while high - low > 1:
        middle = (low + high) // 2
        if at(middle) == old:
            low = middle
        else:
            high = middle
    good, bad = attempts[versions[low]], attempts[versions[high]]
    tried = tuple(str(version) for version in attempts)
    return TurningPoint(good, bad, old, state(bad), tried, differences(good.versions, bad.versions, package))


def differences(before: Mapping[str, str], after: Mapping[str, str], package: str) -> dict[str, tuple[str, str]]:
    """Return what differs between two environments except the package itself; ``-`` stands for an absent one."""
    return {
        name: (before.get(name, "-"), after.get(name, "-"))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name) and canonicalize_name(name) != canonicalize_name(package)
    }


def state_of_probe(probe: str) -> Callable[[Attempt], str]:
    """Return a function that gives a probe's state in an attempt, in words that are the same for the same failure."""

    def state(attempt: Attempt) -> str:
        result = attempt.probes.get(probe)
        if result is None:
            return f"stopped at {attempt.stopped}" if attempt.stopped else "the probe does not apply"
        if result.outcome == "pass":
            return "works"
        return f"fails in {result.stage}: {result.reason[:120]}"

    return state
