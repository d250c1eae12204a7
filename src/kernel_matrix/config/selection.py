"""Select the part of a plan that a person asks for. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.config.model import Matrix, Tier
from kernel_matrix.config.plan import Case, Job, Plan
from kernel_matrix.config.suite import spread


@dataclass(frozen=True)
class Shard:
    """The ``number``-th of ``count`` parts of every job."""

    number: int
    count: int


@dataclass(frozen=True)
class Selection:
    """The options of a command that select from a plan. An empty one, or None, selects everything."""

    tier: Tier | None = None
    platforms: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()  # ids of cases, or of cells; '*' stands for any text
    changed_since: str | None = None  # a git reference
    shard: Shard | None = None
    sample: int | None = None  # how many names of cases of each job
    history: Path | None = None  # results of an earlier run, for the time that cases take
    row_plan: Path | None = None
    row: str | None = None


def parse_shard(text: str) -> Shard:
    """Return the shard that ``K/N`` means.

    Raises:
        UserError: the text is not of this form, or K is more than N.
    """
    match = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text)
    if not match or int(match[1]) > int(match[2]):
        raise UserError(f"--shard {text}: write K/N with K from 1 to N, such as 2/5.")
    return Shard(int(match[1]), int(match[2]))


def has_all(planned: Plan, names: Sequence[str]) -> bool:
    """Return whether a plan has all of these cases or cells, as ``--case`` names them."""
    known = ids(planned)
    return all(_named(known, name) for name in names)


def narrow(matrix: Matrix, planned: Plan, jobs: Sequence[Job], selection: Selection) -> list[Job]:
    """Keep the platforms, toolchains and cases that are asked for. A job without a case is left out.

    Raises:
        UserError: a name is not in the matrix or in the plan.
    """
    for name in selection.platforms:
        if name not in matrix.platforms:
            raise unknown("--platform", "platform", name, matrix.platforms)
    for name in selection.toolchains:
        if name not in matrix.toolchains:
            raise unknown("--toolchain", "toolchain", name, matrix.toolchains)
    asked = _asked(planned, selection.cases)
    selected = []
    for job in jobs:
        if selection.platforms and job.platform not in selection.platforms:
            continue
        if selection.toolchains and job.toolchain not in selection.toolchains:
            continue
        cases = tuple(case for case in job.cases if not selection.cases or {case.id, case.cell.id} & asked)
        if cases:
            selected.append(replace(job, cases=cases))
    return selected


def sampled(jobs: Sequence[Job], count: int) -> list[Job]:
    """Return the jobs with ``count`` of the names of their cases, spread over operators and over the names of each.

    An operator of a suite is a file of tests, and its names are tests with their parameters. Each target has the same.
    """
    return [replace(job, cases=tuple(_spread(job.cases, count))) for job in jobs]


def _spread(cases: Sequence[Case], count: int) -> Iterator[Case]:
    names: dict[tuple[str, str], dict[str, None]] = {}
    for case in cases:
        names.setdefault((case.cell.op, case.cell.direction), {})[case.name] = None
    spread_names = spread({key: [*of_op] for key, of_op in names.items()}, count)
    chosen = {(*key, name) for key, listed in spread_names.items() for name in listed}
    yield from (case for case in cases if (case.cell.op, case.cell.direction, case.name) in chosen)


def ids(planned: Plan) -> set[str]:
    """Return the ids of all cases and cells: what ``--case`` can name."""
    return {name for case in planned.cases for name in (case.id, case.cell.id)}


def _asked(planned: Plan, names: Sequence[str]) -> set[str]:
    """Return the ids of cases and cells that the names of ``--case`` mean."""
    known = ids(planned) if names else set()
    asked: set[str] = set()
    for name in names:
        named = _named(known, name)
        if not named:
            hint = " The full tier has more: --tier full." if planned.tier == "quick" else ""
            raise UserError(f"{_not_in(known, name)}{hint}")
        asked |= named
    return asked


def _not_in(known: set[str], name: str) -> str:
    """Return that no case is called so, and which ids have the name as a part, or what an id is made of."""
    if not (around := _named(known, f"*{name}*")):
        form = "A cell is PLATFORM/TARGET/TOOLCHAIN/OPERATOR.DIRECTION, and * stands for any text."
        return f"{unknown('--case', 'case in the plan', name, known)} {form}"
    taken = f"--case '*{name}*' takes the {len(around)} cases and cells with it, such as {min(around)}."
    return f"--case {name}: there is no such case in the plan. * stands for any text: {taken}"


def _named(known: set[str], name: str) -> set[str]:
    """Return the ids that a name means: itself, or those that it matches with '*' for any text."""
    if name in known or "*" not in name:
        return {name} & known
    pattern = re.compile(".*".join(map(re.escape, name.split("*"))))  # ids of tests have brackets, which fnmatch reads
    return {one for one in known if pattern.fullmatch(one)}
