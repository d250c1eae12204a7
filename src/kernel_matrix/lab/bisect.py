"""Which published version changed the state of a probe or a case, found in log2 steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from packaging.version import Version

from kernel_matrix.base.errors import UserError
from kernel_matrix.lab.sweep import Row

Try = Callable[[Version], Row]


@dataclass(frozen=True)
class Change:
    """The last version with the old state, the first with a new one, and what else differs between the two."""

    last_good: Row
    first_bad: Row
    old: str
    new: str
    tried: tuple[str, ...]
    elsewhere: Mapping[str, tuple[str, str]]


def bisect(versions: Sequence[Version], attempt: Try, state: Callable[[Row], str], package: str) -> Change:
    """Find the first of ``versions`` (oldest first) whose state is not that of the first one.

    Like every bisection it takes for granted that the state changes once between the ends.

    Raises:
        UserError: both ends are in the same state, so that there is nothing to find.
    """
    rows: dict[Version, Row] = {}

    def at(index: int) -> str:
        version = versions[index]
        if version not in rows:
            rows[version] = attempt(version)
        return state(rows[version])

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
    good, bad = rows[versions[low]], rows[versions[high]]
    tried = tuple(str(version) for version in rows)
    return Change(good, bad, old, state(bad), tried, differences(good.versions, bad.versions, package))


def differences(before: Mapping[str, str], after: Mapping[str, str], package: str) -> dict[str, tuple[str, str]]:
    """What differs between two environments beside the package itself; ``-`` where one has it not."""
    return {
        name: (before.get(name, "-"), after.get(name, "-"))
        for name in sorted({*before, *after} - {package})
        if before.get(name) != after.get(name)
    }


def state_of_probe(probe: str) -> Callable[[Row], str]:
    """What came of a probe, in words that are the same when the same happened."""

    def state(row: Row) -> str:
        one = row.probes.get(probe)
        if one is None:
            return f"stopped at {row.stopped}" if row.stopped else "the probe does not apply"
        if one["outcome"] == "pass":
            return "works"
        return f"fails in {one['stage']}: {one['reason'][:120]}"

    return state


def state_of_case(row: Row) -> str:
    """What came of the chosen case or cell."""
    if not row.op:
        return f"stopped at {row.stopped}"
    return f"{row.op['state']}{' in ' + row.op['stage'] if row.op['stage'] else ''}"
