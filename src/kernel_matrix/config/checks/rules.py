"""Checks of exclusions, expectations and resource limits: their ``where``, errors, and versions that cannot hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kernel_matrix.base.errors import did_you_mean
from kernel_matrix.base.patterns import fault_of
from kernel_matrix.base.versions import satisfies
from kernel_matrix.config.checks.names import requirements, unknown
from kernel_matrix.config.document import Fault, Place
from kernel_matrix.config.locks import all_pins
from kernel_matrix.config.model import Exclusion, Matrix, Scalar, ScalarOrList, Toolchain, as_list
from kernel_matrix.config.own_version import OwnVersion, own_version
from kernel_matrix.config.plan import Plan
from kernel_matrix.config.rule_state import rules_with_cases
from kernel_matrix.config.suite import is_suite
from kernel_matrix.config.until import last_day, over_with

CELL_KEYS = ("platform", "target", "toolchain", "op", "direction")


def places(matrix: Matrix) -> Iterator[Fault]:
    """Yield the keys and values of the ``where`` of rules and resource limits that nothing in matrix.yaml has."""
    for section, index, rule in matrix.rules:
        yield from _where(matrix, (section, index, "where"), rule.where)
    for index, entry in enumerate(matrix.resources):
        yield from _where(matrix, ("resources", index, "where"), entry.where)


def _where(matrix: Matrix, place: Place, named: Mapping[str, ScalarOrList]) -> Iterator[Fault]:
    """Yield the keys and values of a ``where`` that nothing in matrix.yaml has."""
    axes = {axis for op in matrix.ops.values() for axis in op.axes}
    known: dict[str, Collection[Scalar]] = {
        "platform": list(matrix.platforms),
        "target": [target for platform in matrix.platforms.values() for target in platform.targets],
        "toolchain": list(matrix.toolchains),
        "op": list(matrix.ops),
        "direction": [direction for op in matrix.ops.values() for direction in op.directions],
    }
    for key, values in named.items():
        if key not in known and key not in axes:
            yield (*place, key), f"unknown key '{key}'.{did_you_mean(key, [*CELL_KEYS, *axes])}"
        if key == "op" and is_suite(matrix):  # which test files there are is known when they have been collected
            continue
        for value in as_list(values) if key in known else ():
            yield from unknown((*place, key), key, value, known[key])


def expectations(matrix: Matrix) -> Iterator[Fault]:
    """Yield the expectations whose pattern, stage or versions are not well formed."""
    for index, expectation in enumerate(matrix.expectations):
        place: Place = ("expectations", index)
        if fault := fault_of(expectation.match):
            yield (*place, "match"), f"this is not a regular expression: {fault}. Escape what is meant literally."
        if (expectation.stage is None) == (expectation.outcome == "error"):
            yield (*place, "outcome"), "an error names its stage, and a fail has none. Correct 'stage'."
        yield from requirements((*place, "versions"), expectation.versions)


def versions(matrix: Matrix, root: Path, full: Plan) -> Iterator[Fault]:
    """Yield the versions of a rule that no environment of its cases could have."""
    if not matrix.rules:
        return
    locked = {name: all_pins(root, toolchain.lock) for name, toolchain in matrix.toolchains.items()}
    own = own_version(root, matrix.package)
    for section, index, rule, cases in rules_with_cases(matrix, full):
        names = dict.fromkeys(case.cell.toolchain for case in cases)
        of_rule = {name: locked[name] for name in names}
        if last_day(rule.until) is None and names and (reason := _unknown_distribution(rule.until, of_rule, own)):
            yield (section, index, "until"), f"'{rule.until}' could never end it: {reason}"
        if any(over_with(rule.until, of_rule[name]) for name in names) or isinstance(rule, Exclusion):
            continue  # of an entry that is over, only the edit that takes it out is worth saying
        toolchains = {name: matrix.toolchains[name] for name in names}
        for number, text in enumerate(rule.versions):
            if own and canonicalize_name(Requirement(text).name) == canonicalize_name(own.name):
                reason = _own_never_holds(text, own)
            else:
                reason = _never_holds(text, toolchains, of_rule)
            if reason:
                yield (section, index, "versions", number), f"'{text}' could never hold: {reason}"


def _unknown_distribution(text: str, locked: Mapping[str, Mapping[str, str]], own: OwnVersion | None) -> str:
    """Return why no environment has the distribution that a requirement names; an empty text if one has."""
    name = canonicalize_name(Requirement(text).name)
    if own and name == canonicalize_name(own.name):
        return ""
    if any(name in pinned for pinned in locked.values()):
        return ""
    hint = did_you_mean(name, {name for pinned in locked.values() for name in pinned})
    return f"'{name}' is in the lock of none of its toolchains ({', '.join(locked)}).{hint}"


def _own_never_holds(text: str, own: OwnVersion) -> str:
    """Return why the package under test could not meet a requirement; an empty text if it does."""
    if not own.version:
        return f"nothing says the version of '{own.name}'. Give it one in its pyproject.toml, or as __version__."
    if satisfies([text], {own.name: own.version}):
        return ""
    return f"the package is {own.name} {own.version}. Correct the version, or take the entry out."


def _never_holds(text: str, toolchains: Mapping[str, Toolchain], locked: Mapping[str, Mapping[str, str]]) -> str:
    """Return why no environment of these toolchains could meet a requirement; an empty text if one could."""
    name = canonicalize_name(Requirement(text).name)
    if reason := _unknown_distribution(text, locked, None):
        return reason
    pinned = {toolchain: versions[name] for toolchain, versions in locked.items() if name in versions}
    for toolchain, version in pinned.items():
        if satisfies([text], {name: version}) or not _exact(toolchains[toolchain], name):
            return ""
    stated = ", ".join(f"{toolchain} has {version}" for toolchain, version in pinned.items())
    return f"{stated}, and 'requires' allows no other. Correct the version, or take the entry out."


def _exact(toolchain: Toolchain, name: str) -> bool:
    """Return whether the toolchain's ``requires`` allows one version of a distribution only."""
    for requirement in map(Requirement, toolchain.requires):
        if canonicalize_name(requirement.name) == name:
            for specifier in requirement.specifier:
                if specifier.operator in ("==", "===") and not specifier.version.endswith(".*"):
                    return True
    return False
