"""A former matrix.yaml and the present one -> what the later one allows and the earlier one did not; a table of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from pydantic import ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from kernel_matrix.base import git
from kernel_matrix.base.errors import first_fault
from kernel_matrix.config import plan as planning
from kernel_matrix.config.model import Expectation, Matrix, Rule, as_list, has_values
from kernel_matrix.config.plan import Plan
from kernel_matrix.config.rule_state import facts_of, rules_with_cases
from kernel_matrix.config.until import last_day
from kernel_matrix.pipeline import Project, plan
from kernel_matrix.report.markdown import cell


@dataclass(frozen=True)
class Loosening:
    """One thing that became looser: its place, the change in words, and the cases (ids) that it concerns."""

    place: str
    change: str
    before: str
    after: str
    cases: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """An expectation or exclusion with the cases that it covers."""

    place: str
    rule: Rule
    cases: frozenset[str]


def loosened(before: Matrix, former: Plan, after: Matrix, full: Plan) -> list[Loosening]:
    """Return all that became looser from one matrix to the other; the plans are of their full tiers."""
    planned = {case.id for case in former.cases}
    old, new = list(_entries(before, former)), list(_entries(after, full))
    rules = [row for section in ("expectations", "exclusions") for row in _rules(section, old, new, planned)]
    return [*_limits(before, after), *_of_code(before, former, after, full), *rules]


def _limits(before: Matrix, after: Matrix) -> Iterator[Loosening]:
    """Yield the limits that are higher than before."""
    old, new = _numbers(before), _numbers(after)
    for place, limit in new.items():
        if place in old and limit > old[place]:
            yield Loosening(place, "the limit is higher", f"{old[place]:g}", f"{limit:g}")
    for place, limit in old.items():
        if place not in new:
            yield Loosening(place, "the limit is gone", f"{limit:g}", "-")
    yield from _own_budgets(before, after)


def _numbers(matrix: Matrix) -> dict[str, float]:
    """Return the limits by their place, without the limits of single operators and outputs."""
    rules = {
        f"accuracy.{place}": rule.limit
        for place, rule in matrix.accuracy.rules().items()
        if not place.startswith("budgets.")
    }
    return {**rules, "limits.attempts": matrix.limits.attempts}


def _of_code(before: Matrix, former: Plan, after: Matrix, full: Plan) -> Iterator[Loosening]:
    """Yield the limits of what code needs that are higher for some cases than before, or gone."""
    if before.resources == after.resources:
        return
    left = {case.id for case in full.cases}
    old, new = _limits_of_code(before, former), _limits_of_code(after, full)
    changes: dict[tuple[str, str, str, str], list[str]] = {}
    for (case, figure), (place, limit) in old.items():
        later, now = new.get((case, figure), ("", math.inf))
        if now > limit and case in left:
            text = ("the limit is higher", f"{now:g}") if later else ("the limit is gone", "-")
            changes.setdefault((f"{later or place}.{figure}", text[0], f"{limit:g}", text[1]), []).append(case)
    yield from (Loosening(*row, tuple(cases)) for row, cases in changes.items())


def _limits_of_code(matrix: Matrix, full: Plan) -> dict[tuple[str, str], tuple[str, float]]:
    """Return the place and the limit of each figure of each case."""
    found: dict[tuple[str, str], tuple[str, float]] = {}
    for index, entry in enumerate(matrix.resources):
        limits: dict[str, float] = {**entry.limits, **({"growth": entry.growth} if entry.growth else {})}
        for case in full.cases:
            if has_values(facts_of(case), entry.where):
                found |= {(case.id, figure): (f"resources[{index}]", limit) for figure, limit in limits.items()}
    return found


def _own_budgets(before: Matrix, after: Matrix) -> Iterator[Loosening]:
    """Yield the limits of single operators and outputs that are higher than those that held for them."""
    old, new = before.accuracy, after.accuracy
    for own in dict.fromkeys((one.op, one.direction, one.output) for one in (*old.budgets, *new.budgets)):
        op, only, output = own
        for direction in (only,) if only else (*new.caps,):
            for name in ("factor", "rounded", "cap"):
                places = [accuracy.place_of(name, op, direction, output or "") for accuracy in (old, new)]
                if places[0] == places[1] and not places[0].startswith("budgets."):
                    continue
                known = [accuracy.rules().get(place) for accuracy, place in zip((old, new), places, strict=True)]
                limits = [rule.limit for rule in known if rule]
                if len(limits) == 2 and limits[1] > limits[0]:
                    place = f"accuracy.{'.'.join(part for part in (op, direction, output) if part)}.{name}"
                    yield Loosening(place, "the limit is higher", f"{limits[0]:g}", f"{limits[1]:g}")


def _entries(matrix: Matrix, full: Plan) -> Iterator[_Entry]:
    for section, index, rule, cases in rules_with_cases(matrix, full):
        yield _Entry(f"{section}[{index}]", rule, frozenset(case.id for case in cases))


def _rules(
    section: str, before: Iterable[_Entry], after: Iterable[_Entry], planned: Collection[str]
) -> Iterator[Loosening]:
    """Yield what the entries of a section allow that they did not."""
    free = [entry for entry in before if entry.place.startswith(section)]
    former, later = list(free), [entry for entry in after if entry.place.startswith(section)]
    for entry in sorted(later, key=lambda entry: not any(_same(entry, one) for one in former)):
        partner = _partner(entry, free)
        if partner:
            free.remove(partner)
            yield from _changes(entry, partner)
        covered = {case for one in former if _error(one.rule) == _error(entry.rule) for case in one.cases}
        if partner and _error(partner.rule) != _error(entry.rule):
            covered |= partner.cases  # the change of the error is a row of its own
        if more := sorted(entry.cases - covered):
            change = "it covers more cases" if partner else "it was added"
            if new := [case for case in more if case not in planned]:
                change += f", of which {len(new)} are new in the plan"
            before_it = _where(partner.rule) if partner else "-"
            yield Loosening(entry.place, change, before_it, _where(entry.rule), tuple(more))


def _partner(entry: _Entry, free: Sequence[_Entry]) -> _Entry | None:
    """Return the former entry that became this one: the same, or the one with most cases in common, or the same error.

    An entry that has nothing in common with a former one was added.
    """
    for one in free:
        if _same(entry, one):
            return one
    near = max(free, key=lambda one: len(one.cases & entry.cases), default=None)
    if near and near.cases & entry.cases:
        return near
    error = _error(entry.rule)
    return next((one for one in free if error and _error(one.rule) == error), None)


def _same(one: _Entry, other: _Entry) -> bool:
    return one.rule.where == other.rule.where and _error(one.rule) == _error(other.rule)


def _error(rule: Rule) -> tuple[str, ...]:
    """Return what an expectation says of the error; nothing of an exclusion."""
    return (rule.outcome, rule.stage or "", rule.match) if isinstance(rule, Expectation) else ()


def _changes(entry: _Entry, former: _Entry) -> Iterator[Loosening]:
    """Yield what is looser in an entry than in the former one, except its cases."""
    cases = tuple(sorted(entry.cases))
    old, new = former.rule, entry.rule
    if _ends_later(old.until, new.until):
        yield Loosening(entry.place, "it ends later", old.until, new.until, cases)
    if not isinstance(old, Expectation) or not isinstance(new, Expectation):
        return
    if (old.outcome, old.stage) != (new.outcome, new.stage):
        before, after = (f"{one.outcome} {one.stage or ''}".strip() for one in (old, new))
        yield Loosening(entry.place, "it expects another end", before, after, cases)
    if not _is_narrower(old.match, new.match):
        yield Loosening(entry.place, "its pattern matches other messages", old.match, new.match, cases)
    if is_wider(old.versions, new.versions):
        before, after = (", ".join(one.versions) or "any" for one in (old, new))
        yield Loosening(entry.place, "it holds for more versions", before, after, cases)


def _ends_later(before: str, after: str) -> bool:
    if before == after:
        return False
    old, new = last_day(before), last_day(after)
    if old and new:
        return new > old
    return bool(old or new) or is_wider([after], [before])  # fewer versions end it


def _is_narrower(before: str, after: str) -> bool:
    """Return whether a pattern finds no message that the former did not. It is sure only of added literal text."""
    if before == after:
        return True
    if before not in after:
        return False
    head, _, tail = after.partition(before)
    return all(re.fullmatch(r"(\\\W|[\w ,:;'\"=/<>-])*", part) for part in (head, tail))


def _where(rule: Rule) -> str:
    """Return the ``where`` of an entry in words."""
    return "; ".join(f"{key}: {', '.join(map(str, as_list(values)))}" for key, values in rule.where.items())


def is_wider(before: Sequence[str], after: Sequence[str]) -> bool:
    """Return whether some versions meet all requirements of ``after`` and not all of ``before``."""
    old, new = _by_name(before), _by_name(after)
    anything = SpecifierSet(prereleases=True)
    try:
        return not all(new.get(name, anything).is_subset(specifiers) for name, specifiers in old.items())
    except ValueError:  # === takes any text, and is compared with nothing
        return [*before] != [*after]


def _by_name(texts: Iterable[str]) -> dict[str, SpecifierSet]:
    by_name: dict[str, SpecifierSet] = {}
    for requirement in map(Requirement, texts):
        name, specifiers = (
            canonicalize_name(requirement.name),
            SpecifierSet(str(requirement.specifier), prereleases=True),
        )
        by_name[name] = by_name[name] & specifiers if name in by_name else specifiers
    return by_name


class FormerError(Exception):
    """A former matrix.yaml cannot be read; the text says why, as a part of a sentence."""


def read_former(text: str) -> Matrix:
    """Return the matrix of a former text.

    Raises:
        FormerError: it is no YAML, or no matrix.yaml of the present form.
    """
    try:
        return Matrix.model_validate(YAML(typ="safe").load(text))
    except YAMLError as error:
        raise FormerError(f"it is no YAML: {str(error).splitlines()[0]}") from None
    except ValidationError as error:
        raise FormerError(first_fault(error)) from None


def since_commit(project: Project, since: str) -> list[Loosening]:
    """Return what matrix.yaml allows now and did not where this branch left a commit, or that nobody can tell.

    Raises:
        UserError: git does not know the commit.
    """
    name = project.name
    text = git.former_text(project.root, since, name)
    if text is None:
        return [Loosening(name, "the file is new, with all that it allows", "-", "-")]
    try:
        before = read_former(text)
        former = planning.plan(before, "full")
    except (FormerError, KeyError) as error:
        return [Loosening(name, f"the former file cannot be compared, look at the change yourself: {error}", "-", "-")]
    return loosened(before, former, project.matrix, plan(project, "full"))


def loosened_table(rows: Sequence[Loosening], since: str, text: Callable[[str], str] = cell) -> str:
    """Return a heading with the table of all that became looser since a commit, or a sentence that nothing did.

    ``text`` escapes what is not ours: for Markdown, or for a terminal, where ``str`` leaves it as it is.
    """
    if not rows:
        return f"Nothing in matrix.yaml became looser since {text(since)}.\n"
    return "\n".join(_of_loosened(rows, since, text)) + "\n"


def _of_loosened(rows: Sequence[Loosening], since: str, text: Callable[[str], str]) -> Iterator[str]:
    yield f"### Looser in matrix.yaml since {text(since)}\n"
    yield "| where | what | before | now | cases |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        cells = (row.place, row.change, row.before, row.after, _concerned(row))
        yield f"| {' | '.join(map(text, cells))} |"


def _concerned(row: Loosening) -> str:
    """Return how many cases a row concerns, and one of them; a limit concerns all."""
    if not row.cases:
        return "all"
    return f"{len(row.cases)}, such as {row.cases[0]}"
