"""The state of each expectation and exclusion: whether it holds, is over, matches nothing, or is fixed.

Pure functions. That an expectation is fixed, so that its cases no longer fail, follows from the results.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Literal

from kernel_matrix.config.edits import Edit
from kernel_matrix.config.locks import all_pins
from kernel_matrix.config.model import Matrix, Rule, Scalar
from kernel_matrix.config.own_version import own_version
from kernel_matrix.config.plan import Case, Plan
from kernel_matrix.config.until import last_day, over_on, over_with

State = Literal["holds", "over", "matches nothing", "fixed"]
Versions = Mapping[str, Mapping[str, str]]  # by toolchain and distribution


@dataclass(frozen=True)
class RuleState:
    """An entry of ``expectations`` or ``exclusions``, its cases in the full plan, its state, and what to edit."""

    section: str
    index: int
    rule: Rule
    cases: tuple[Case, ...]
    state: State = "holds"
    reason: str = ""
    edit: Edit | None = None

    @property
    def name(self) -> str:
        """The place of the entry, such as ``expectations[0]``."""
        return f"{self.section}[{self.index}]"

    @property
    def sentence(self) -> str:
        """Say what is wrong with an entry that does not hold, with whom and where to ask."""
        return f"{self.name} {self.reason} ({self.rule.owner}, {self.rule.link})"


def rule_states(matrix: Matrix, full: Plan, versions: Versions, today: date) -> list[RuleState]:
    """Return the state of every entry, by the plan of the full tier and the versions of the toolchains' locks."""
    return [_state(*place, versions, today) for place in rules_with_cases(matrix, full)]


def rules_with_cases(matrix: Matrix, full: Plan) -> Iterator[tuple[str, int, Rule, tuple[Case, ...]]]:
    """Yield section, index, entry and cases of every expectation and exclusion."""
    covered: dict[int, list[Case]] = {}
    for case in full.cases:
        for rule in (*case.expectations, *filter(None, [case.exclusion])):
            covered.setdefault(id(rule), []).append(case)
    for section, index, rule in matrix.rules:
        yield section, index, rule, tuple(covered.get(id(rule), ()))


def fixed(matrix: Matrix, full: Plan, states: Mapping[str, str]) -> Iterator[RuleState]:
    """Yield the expectations that a case shows to be fixed, with the edit that follows from it.

    ``states`` has the states of the cases with an expectation, by id. An entry is taken out unless some of its cases
    still fail as it says. Then it is narrowed to the cases that do not pass.
    """
    for section, index, rule, cases in rules_with_cases(matrix, full):
        if section != "expectations":
            continue
        passing = {case.id for case in cases if states.get(case.id) == "fixed"}
        if not passing:
            continue
        known = [case.id for case in cases if states.get(case.id) == "known"]
        ended = passing if known else {case.id for case in cases}
        edit = ending_edit(section, index, cases, ended)
        reason = _no_longer_fails(sorted(passing), known, len(cases), narrow=edit is not None)
        yield RuleState(section, index, rule, cases, "fixed", reason, edit)


def _no_longer_fails(passing: Sequence[str], known: Sequence[str], cases: int, *, narrow: bool) -> str:
    """Return which of the cases of an entry pass, and what this means for the entry."""
    text = f"no longer fails: {len(passing)} of its {cases} cases pass, such as {passing[0]}"
    if not known:
        return text
    text += f"; {len(known)} still fail as it says"
    return text if narrow else f"{text}. No single key of 'where' separates them: write an entry for each"


def locked_versions(matrix: Matrix, root: Path) -> dict[str, dict[str, str]]:
    """Return the versions that each toolchain's lock pins, and the version of the package under test."""
    own = own_version(root, matrix.package)
    own_versions = {own.name: own.version} if own and own.version else {}
    return {name: {**all_pins(root, toolchain.lock), **own_versions} for name, toolchain in matrix.toolchains.items()}


def ending_edit(section: str, index: int, cases: Sequence[Case], ended: Collection[str]) -> Edit | None:
    """Return the edit after which an entry no longer covers the ended cases (ids), and all others as before.

    The entry is taken out if all of its cases ended. Else one key of ``where`` is narrowed; None if no key can do it.
    """
    rest = [case for case in cases if case.id not in ended]
    if not rest:
        return Edit(section, index)
    gone = [facts_of(case) for case in cases if case.id in ended]
    for key in dict.fromkeys(key for facts in map(facts_of, rest) for key in facts):
        kept = list(dict.fromkeys(facts_of(case).get(key, "") for case in rest))
        if not {facts.get(key, "") for facts in gone} & {*kept}:
            return Edit(section, index, key, tuple(kept))
    return None


def facts_of(case: Case) -> dict[str, Scalar]:
    """Return what ``where`` can name of a case: the parts of its cell, and its axes."""
    return {**case.cell.facts, **case.axes}


def _state(section: str, index: int, rule: Rule, cases: tuple[Case, ...], versions: Versions, today: date) -> RuleState:
    if not cases:
        reason = "matches nothing: it holds for no case of the plan that no entry before it covers"
        return RuleState(section, index, rule, cases, "matches nothing", reason, Edit(section, index))
    if over_on(rule.until, today):
        reason = f"is over: it held until {last_day(rule.until)}"
        return RuleState(section, index, rule, cases, "over", reason, Edit(section, index))
    toolchains = {case.cell.toolchain for case in cases}
    over = {name for name in toolchains if over_with(rule.until, versions.get(name, {}))}
    if over:
        ended = {case.id for case in cases if case.cell.toolchain in over}
        reason = f"is over: it held until {rule.until}, and the lock of {', '.join(sorted(over))} has that"
        return RuleState(section, index, rule, cases, "over", reason, ending_edit(section, index, cases, ended))
    return RuleState(section, index, rule, cases)
