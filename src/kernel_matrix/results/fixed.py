"""The expectations whose cases no longer fail, by the results. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kernel_matrix.config.model import Matrix
from kernel_matrix.config.plan import Plan
from kernel_matrix.config.rule_state import RuleState, ending_edit, rules_with_cases
from kernel_matrix.results.compare import State


def fixed(matrix: Matrix, full: Plan, states: Mapping[str, State]) -> Iterator[RuleState]:
    """Yield the expectations that a case shows to be fixed, with the edit that follows from it.

    ``states`` are those of the cases with an expectation, by id. An entry is taken out unless some of its cases still
    fail as it says. Then it is narrowed to those that do not pass.
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
        reason = _reason(sorted(passing), known, len(cases), narrow=edit is not None)
        yield RuleState(section, index, rule, cases, "fixed", reason, edit)


def _reason(passing: Sequence[str], known: Sequence[str], cases: int, *, narrow: bool) -> str:
    """Return which of the cases of an entry pass, and what that means for the entry."""
    text = f"no longer fails: {len(passing)} of its {cases} cases pass, such as {passing[0]}"
    if not known:
        return text
    text += f"; {len(known)} still fail as it says"
    return text if narrow else f"{text}. No single key of 'where' separates them: write an entry for each"
