"""The results of the search: in words, as entries for matrix.yaml, and as a check."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import hypothesis

from kernel_matrix import __version__
from kernel_matrix.base import git
from kernel_matrix.base.words import counted
from kernel_matrix.config.model import Op, Scalar
from kernel_matrix.config.plan import Case
from kernel_matrix.pipeline import Project
from kernel_matrix.report.checks import Check, CheckedCell
from kernel_matrix.report.checks import Finding as OfCheck
from kernel_matrix.tools.fuzz.case_names import SEED, Tried
from kernel_matrix.tools.fuzz.lanes import Lane
from kernel_matrix.tools.fuzz.search import FAILED, KNOWN, NOT_JUDGED, PASSED, Finding


@dataclass(frozen=True)
class Searched:
    """The search of one cell: how many cases ended how, in how many seconds, and what was found."""

    lane: Lane
    case: Case
    states: Counter[str]
    seconds: float
    finding: Finding | None


def check_of(project: Project, results: Sequence[Searched], began: float, note: str) -> Check:
    """Return what was tried, as a check. A case that the suite cannot judge does not count as tried."""
    devices = sorted({device.name for result in results if (device := result.lane.request.device)})
    unjudged = sum(result.states[NOT_JUDGED] for result in results)
    return Check(
        name="fuzz",
        program=f"kernel-matrix {__version__}, hypothesis {hypothesis.__version__}",
        sees="wrong numbers, crashes and hangs at rare shapes and values",
        machine=", ".join(devices),
        commit=git.commit(project.root),
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(began)),
        note=f"{note}; {counted(unjudged, 'case')} that the suite cannot judge",
        cells=tuple(_cell(result) for result in results),
        findings=tuple(
            OfCheck(case=f"{result.case.cell.id}/{result.finding.name}", text=result.finding.verdict.words)
            for result in results
            if result.finding
        ),
    )


def _cell(result: Searched) -> CheckedCell:
    """Return the counts of a cell. What is shrunk fails many times, and is one finding."""
    tried = sum(result.states[state] for state in (PASSED, FAILED, KNOWN))
    return CheckedCell(
        cell=result.case.cell.id, tried=tried, found=int(result.finding is not None), explained=0, unfinished=0
    )


def entry_of(op: Op, tried: Tried) -> str:
    """Return the lines to add to matrix.yaml: values of the axes where they say it all, and else the name."""
    if tried.rules or tried.views:
        return f"fuzz:\n  known:\n    - {tried.name(op)!r}\n"
    axes: dict[str, Scalar] = {**tried.axes, **({SEED: tried.seed} if SEED in op.axes else {})}
    named = {axis: value for axis, value in axes.items() if op.defaults.get(axis) != value}
    group = ", ".join(f"{axis}: {_text(value)}" for axis, value in {"direction": tried.direction, **named}.items())
    return f"ops:\n  {tried.op}:\n    cases:\n      quick:\n        - {{ {group} }}\n"


def words(op: Op, finding: Finding, command: str) -> str:
    """Return a finding in several lines: its name, what was wrong, whether it repeats, and the entry."""
    shrunk = "the smallest" if finding.is_smallest else "not shrunk to the end"
    repeats = "repeats in a new process" if finding.repeats else "does NOT repeat in a new process"
    lines = [
        f"FAILS {finding.name}",
        f"  {finding.verdict.words}",
        f"  {shrunk}, found as {finding.first.name(op)}",
        f"  {repeats}: {command}",
        "  for matrix.yaml:",
        *(f"    {line}" for line in entry_of(op, finding.tried).splitlines()),
    ]
    return "\n".join(f"  {line}" for line in lines)


def totals(states: Mapping[str, int]) -> str:
    """Return the counts of the verdicts in words."""
    return ", ".join(f"{count} {state}" for state, count in states.items() if count)


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}"
