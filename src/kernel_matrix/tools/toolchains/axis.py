"""The versions that matrix.yaml names of a toolchain's distributions: its cases are tried in each of them.

Where a state differs between two versions that were tried, a bisection tries those that were published between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from packaging.version import Version

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.config.model.platforms import Versions
from kernel_matrix.pipeline import Project
from kernel_matrix.probes.attempts import Attempt, state_of_case
from kernel_matrix.probes.changes import is_of_the_version, usual
from kernel_matrix.tools.toolchains.bisect import TurningPoint, bisect
from kernel_matrix.tools.toolchains.subject import Subject
from kernel_matrix.tools.toolchains.versions import chosen
from kernel_matrix.vendors.machine import Machine

Try = Callable[[Version], Attempt]


def axes(
    project: Project,
    machine: Machine,
    *,
    toolchains: Sequence[str] = (),
    package: str | None = None,
    cases: Sequence[str] = (),
    discard: bool = False,
) -> list[tuple[Subject, Versions]]:
    """Return what is tried: each distribution whose versions an entry of ``toolchains`` names, and these versions.

    Raises:
        UserError: there is no such toolchain, or none names versions of the package.
    """
    known = project.matrix.toolchains
    for name in toolchains:
        if name not in known:
            raise unknown("--toolchain", "toolchain", name, known)
    found = []
    for name, toolchain in known.items():
        for distribution, entry in toolchain.versions.items():
            if (toolchains and name not in toolchains) or package not in (None, distribution):
                continue
            axis = Versions(versions=entry) if isinstance(entry, list) else entry
            names = [case for case in cases if f"/{name}/" in case] if cases else [f"*/*/{name}/*"]
            if names:
                subject = Subject(distribution, project, machine, name, (), tuple(names), discard,
                                  environment=axis.environment, is_axis=True)  # fmt: skip
                found.append((subject, axis))
    if not found:
        raise UserError(
            "matrix.yaml: no entry of 'toolchains' that is asked for has 'versions', such as "
            "'versions: { triton: [3.6.0, 3.7.0] }'. Or name a package with --versions."
        )
    return found


def named(axis: Versions, published: Sequence[Version]) -> list[Version]:
    """Return the published versions that an entry of matrix.yaml names, the oldest first.

    Raises:
        UserError: one of them was not published.
    """
    return sorted({version for text in axis.versions for version in chosen(text, published)})


def newest(subject: Subject, axis: Versions, published: Sequence[Version]) -> list[Version]:
    """Return the version that the toolchain has and the newest one; none where it has the newest one."""
    assert subject.toolchain
    project = subject.project
    own = usual(project.matrix, project.root, subject.toolchain, subject.package) or named(axis, published)[0]
    return [own, published[-1]] if own < published[-1] else []


def turning_points(
    attempts: dict[Version, Attempt], published: Sequence[Version], attempt: Try, package: str
) -> Iterator[tuple[str, TurningPoint]]:
    """Yield each case whose state changed, with the version that changed it, and add what was tried to the attempts.

    A bisection starts by itself where untried versions lie between the two in which the state of a case differs.
    """

    def at(version: Version) -> Attempt:
        if version not in attempts:
            attempts[version] = attempt(version)
        return attempts[version]

    seen: set[tuple[str, str, str]] = set()
    while gap := next((gap for gap in _gaps(attempts) if gap not in seen), None):
        case, old, new = gap
        between = [one for one in published if Version(old) <= one <= Version(new)]
        point = bisect(between, at, lambda tried, case=case: state_of_case(tried, case), package)  # type: ignore[misc]
        seen |= {gap, (case, point.last_good.version, point.first_bad.version)}
        yield case, point


def _gaps(attempts: dict[Version, Attempt]) -> Iterator[tuple[str, str, str]]:
    """Yield each case and two neighbours of the versions in which its state differs; of equal changes the first."""
    ordered = [attempts[version] for version in sorted(attempts)]
    for old, new in pairwise(ordered):
        changes: set[tuple[str, str]] = set()
        for case in {**old.cases, **new.cases} or [""]:
            change = state_of_case(old, case), state_of_case(new, case)
            known = all(is_of_the_version(one.cases[case]) for one in (old, new) if case in one.cases)
            if known and change[0] != change[1] and change not in changes:
                changes.add(change)
                yield case, old.version, new.version
