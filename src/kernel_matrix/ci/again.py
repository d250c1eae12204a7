"""Run red cases again on this commit, and once on its base, on the same machine; write what that tells as a check."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kernel_matrix import judging, pipeline
from kernel_matrix.base.errors import UserError
from kernel_matrix.base.words import counted
from kernel_matrix.ci.passed import Passed
from kernel_matrix.config.model.limits import Limits
from kernel_matrix.matrix.commits import runner, work_tree
from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks
from kernel_matrix.report.checks import Check, Finding
from kernel_matrix.report.reruns import NAME, Tries, machine_of
from kernel_matrix.results.states import Verdict
from kernel_matrix.run.supervise import JOB_LIMIT
from kernel_matrix.vendors.machine import Machine

_RED = {"fail", "error", "known"}  # of a case that is not red as "fixed"
_WORKS = {"pass", "flaky", "fixed", "held", "compiled", "lowered"}


@dataclass(frozen=True)
class Budget:
    """The most that running again may take: how often each case runs, the minutes of all, and how many cases."""

    times: int = 3
    minutes: float = 20
    cases: int = 20


@dataclass
class Tried:
    """A red case, and whether it was red in each try on this commit and on the base; None if it was not tried there."""

    verdict: Verdict
    here: list[bool] = field(default_factory=list)
    base: bool | None = None

    @property
    def case(self) -> str:
        """The id of the case."""
        return self.verdict.case.id

    def tries(self, base: str, passed: Passed) -> Tries:
        """Return what its word follows from; ``base`` is the base commit."""
        facts = self.verdict.record.job if self.verdict.record else {}
        commit, machine = facts.get("commit", ""), machine_of(facts)
        return Tries(
            red=1 + sum(self.here),
            total=1 + len(self.here),
            base=base if self.base is not None else "",
            base_red=bool(self.base),
            elsewhere=passed.elsewhere(self.case, commit, machine),
            before=self.base is not None and passed.on(self.case, base, machine),
        )


def red_cases(project: Project, folders: Sequence[Path], commit: str) -> list[Verdict]:
    """Return the red cases of the results of this commit that some machine has tried.

    Raises:
        UserError: a folder cannot be used, or results are of another commit.
    """
    with judging.judged(project, pipeline.plan(project, "full"), folders, only=()) as judged:
        red = [verdict for verdict in judged.red() if verdict.record]
    others = {str(verdict.record and verdict.record.job.get("commit", "")) for verdict in red} - {commit}
    if others:
        raise UserError(
            f"the results are of commit {', '.join(sorted(others)) or 'unknown'}, and the checkout is {commit}."
        )
    return red


def run_again(
    project: Project, red: Sequence[Verdict], base: str, budget: Budget, machine: Machine, executor: str
) -> tuple[list[Tried], list[Verdict]]:
    """Run red cases again, one of each cell before others; return what became of them, and those that it left out.

    A round begins only while there is time, and each job ends when it is over. What flakes is not run on the base.
    """
    in_turns = _in_turns(red)
    tried = [Tried(verdict) for verdict in in_turns[: budget.cases]]
    end = time.monotonic() + 60 * budget.minutes
    build = project.apart(NAME).build

    def limited(limits: Limits) -> Limits:
        return limits.model_copy(update={"attempts": 1, "job": max(1.0, min(limits.job, end - time.monotonic()))})

    for _ in range(budget.times if tried else 0):
        if time.monotonic() < end:
            found = runner(project, [one.case for one in tried], machine, executor, build, limited)(None)
            for one, is_red in _became(tried, found):
                one.here.append(is_red)
    always = [one for one in tried if one.here and all(one.here)]
    if base and always and time.monotonic() < end:
        verdicts_at = runner(project, [one.case for one in always], machine, executor, build, limited)
        with work_tree(project.root, build / "tree", base) as tree:
            for one, is_red in _became(always, verdicts_at(tree)):
                one.base = is_red
    return tried, in_turns[budget.cases :]


def _in_turns(red: Sequence[Verdict]) -> list[Verdict]:
    """Return red cases in the order in which they run: the first of each cell, then the second of each."""
    in_cell = Counter[str]()
    ranked = list[tuple[int, int, Verdict]]()
    for index, verdict in enumerate(red):
        ranked.append((in_cell[verdict.case.cell.id], index, verdict))
        in_cell[verdict.case.cell.id] += 1
    return [verdict for *_, verdict in sorted(ranked, key=lambda one: one[:2])]


def _became(tried: Sequence[Tried], found: Sequence[Verdict]) -> Iterator[tuple[Tried, bool]]:
    """Yield the cases that came to an end on the same machine, each with whether it was red as before."""
    by_case = {verdict.case.id: verdict for verdict in found}
    for one in tried:
        now = by_case.get(one.case)
        if now and now.record and one.verdict.record and JOB_LIMIT not in now.record.message:
            same = machine_of(now.record.job) == machine_of(one.verdict.record.job)
            is_red = _is_red(one.verdict, now)
            if same and is_red is not None:
                yield one, is_red


def _is_red(before: Verdict, now: Verdict) -> bool | None:
    """Return whether a case is red as before; None if it came to no end, or was only compiled where it ran before."""
    if before.state == "fixed":  # it passes, and an entry of matrix.yaml says that it fails
        return now.state == "fixed" if now.state in _RED | _WORKS else None
    if now.state in _RED:
        return True
    actions = {verdict.record.action for verdict in (before, now) if verdict.record and verdict.record.action}
    return False if now.state in _WORKS and len(actions) == 1 else None


def checks_of(
    tried: Collection[Tried], left: Sequence[Verdict], base: str, budget: Budget, passed: Passed, when: datetime
) -> Iterator[Check]:
    """Yield what was found, a check for each machine of the results."""
    by_machine: dict[str, list[Tried]] = {}
    for one in (*tried, *map(Tried, left)):
        by_machine.setdefault(machine_of(one.verdict.record.job if one.verdict.record else {}), []).append(one)
    for machine, ones in by_machine.items():
        commit = next((one.verdict.record.job.get("commit", "") for one in ones if one.verdict.record), "")
        findings = [Finding(case=one.case, text=one.tries(base, passed).text) for one in ones if one.here]
        unfinished = [one.case for one in ones if not one.here]
        yield Check(
            name=NAME,
            program="ci again",
            sees="whether a red case is red again on its commit, and on the base",
            machine=machine,
            commit=commit,
            when=f"{when.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            note=f"At most {budget.times} times, {budget.minutes:g} minutes, {counted(budget.cases, 'case')}. "
            f"The base is {base or 'not known'}.",
            cells=checks.cells_of([one.case for one in ones], findings, unfinished),
            findings=tuple(findings),
            unfinished=tuple(
                f"{case}: it was not run again: --cases is {budget.cases}, --minutes {budget.minutes:g}"
                for case in unfinished
            ),
        )


def write(found: Sequence[Check], build: Path) -> list[Path]:
    """Write the checks in place of an earlier call's checks."""
    for file in (build / checks.FOLDER).glob(f"{NAME}*.json"):
        file.unlink()
    return [checks.write(check, build, f"{NAME}-{number}" if number else NAME) for number, check in enumerate(found)]
