"""Attempts of a sweep -> the versions from which on states, numbers or code differ, and what newer ones will break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from kernel_matrix.config.locks import all_pins
from kernel_matrix.config.model import Matrix
from kernel_matrix.probes.attempts import Attempt, Sweep, state_of_case
from kernel_matrix.report.toolchains import Change, SweptCase
from kernel_matrix.results.states import RED

# What compilers report of code, with their own names: spills in bytes (NVIDIA) or in registers (AMD).
FIGURES = ("registers", "spill_bytes", "spilled_registers", "shared_bytes", "stack_bytes", "bytes")
THINGS = ("state", "bits", *FIGURES)


def in_order(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return the attempts without pins, the oldest version first."""
    return sorted((one for one in attempts if not one.pins), key=lambda one: Version(one.version))


def is_of_the_version(case: SweptCase) -> bool:
    """Return whether the state of a case says something of the version: what the machine did wrong does not."""
    return case.stage != "machine"


def changes(attempts: Sequence[Attempt]) -> tuple[Change, ...]:
    """Return what differs between each version with cases and the one that was tried before it."""
    tried = [one for one in in_order(attempts) if one.cases]
    return tuple(
        Change(version=new.version, before=old.version, what=thing, cases=cases)
        for old, new in pairwise(tried)
        for thing in THINGS
        if (cases := dict(_differing(old, new, thing)))
    )


def _differing(old: Attempt, new: Attempt, thing: str) -> Iterator[tuple[str, tuple[str, str]]]:
    for name in sorted(old.cases.keys() & new.cases.keys()):
        if not all(is_of_the_version(attempt.cases[name]) for attempt in (old, new)):
            continue
        before, now = (_text(attempt, name, attempt.cases[name], thing) for attempt in (old, new))
        if before and now and before != now:
            yield name, (before, now)


def _text(attempt: Attempt, name: str, case: SweptCase, thing: str) -> str:
    if thing == "state":
        return state_of_case(attempt, name)
    if thing == "bits":
        return case.bits
    return f"{case.figures[thing]:.10g}" if thing in case.figures else ""


def described(change: Change, total: int) -> str:
    """Return a change as a sentence: what differs in how many cases, and the first of them."""
    name, (old, new) = min(change.cases.items())
    what = "other bits" if change.what == "bits" else f"{change.what} {old} -> {new}"
    return (
        f"{change.before} -> {change.version}: {change.what} of {len(change.cases)} of {total} cases ({name}: {what})"
    )


def warning(sweep: Sweep, locked: Version) -> str:
    """Return what the newest version that was tried will break, and since which one; empty if nothing."""
    tried = in_order(sweep.attempts)
    base = next((one for one in reversed(tried) if Version(one.version) <= locked and one.cases), None)
    later = [one for one in tried if Version(one.version) > locked]
    if not base or not later:
        return ""
    good = [name for name, case in base.cases.items() if case.state not in RED]
    broken = {one.version: [name for name in good if _is_broken(one, name)] for one in later}
    newest = later[-1]
    if not (names := broken[newest.version]):
        return ""
    since = next(one for one in later if set(broken[one.version]) & set(names))
    first = next(name for name in names if name in broken[since.version])
    reason = since.cases[first].reason if since.cases else since.message
    return (
        f"{sweep.package} {newest.version} will break {len(names)} of {len(good)} cases of {sweep.toolchain} that were "
        f"tried, the first since {since.version}: {state_of_case(since, first)}: {reason.partition(';')[0][:80]}"
    )


def _is_broken(attempt: Attempt, name: str) -> bool:
    case = attempt.cases.get(name)
    return bool(not case and attempt.stopped) or bool(case and case.state in RED and is_of_the_version(case))


def warnings(matrix: Matrix, root: Path, sweeps: Sequence[Sweep]) -> tuple[str, ...]:
    """Return the warnings of the sweeps whose versions matrix.yaml names: of each axis the one of most cases."""
    of_axis: dict[tuple[str, str], Sweep] = {}
    for sweep in sorted(sweeps, key=lambda one: max(len(attempt.cases) for attempt in one.attempts)):
        of_axis[sweep.toolchain, sweep.package] = sweep
    found = []
    for sweep in of_axis.values():
        if sweep.toolchain in matrix.toolchains:
            own = usual(matrix, root, sweep.toolchain, sweep.package)
            found.append(warning(sweep, own or min(Version(one.version) for one in sweep.attempts)))
    return tuple(filter(None, found))


def usual(matrix: Matrix, root: Path, toolchain: str, package: str) -> Version | None:
    """Return the version of a package in the lock of a toolchain; None where it is not in it."""
    text = all_pins(root, matrix.toolchains[toolchain].lock).get(canonicalize_name(package))
    return Version(text) if text else None
