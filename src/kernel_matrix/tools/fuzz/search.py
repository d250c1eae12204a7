"""The search in one cell: hypothesis draws cases until one fails or the time is over, and shrinks that one."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import hypothesis

from kernel_matrix.base.patterns import is_found
from kernel_matrix.config.model import Matrix, has_values
from kernel_matrix.config.plan import Case
from kernel_matrix.job.journal import Entry
from kernel_matrix.tools.fuzz.case_names import SEED, Tried
from kernel_matrix.tools.fuzz.inside.drawing import SETTINGS
from kernel_matrix.tools.fuzz.inside.values import DRAWN
from kernel_matrix.tools.fuzz.lanes import excluded
from kernel_matrix.tools.fuzz.space import Space
from kernel_matrix.tools.fuzz.worker import Worker, WorkerError

_ENDLESS = 10**7  # cases: the time ends the search
_SEARCHING, _SHRINKING = 0.75, 0.9  # of the time, until the search and the shrinking end
_CLASS = re.compile(r"(\w+\.)+\w+(Error|Exception): ")
_NO_GOLDEN = "the golden must be finite"  # kernel_matrix.job.accuracy says so of inputs that overflow
PASSED, FAILED, NOT_JUDGED, KNOWN, NOT_TRIED = "passed", "failed", "not judged", "known", "not tried"
_SETTINGS = hypothesis.settings(SETTINGS, max_examples=_ENDLESS, verbosity=hypothesis.Verbosity.quiet)


class _OverError(BaseException):
    """The time is over. It is no ``Exception``, so that hypothesis does not take it for a fault of a case."""


class _FaultError(Exception):
    """A case fails. Hypothesis shrinks among the cases that raise the same class."""


@dataclass(frozen=True)
class Verdict:
    """The end of one case: what it means, and the words and the stage of a failure."""

    state: str
    message: str = ""
    stage: str = ""

    @property
    def words(self) -> str:
        """The stage and the first line of the message."""
        first = _CLASS.sub("", self.message.splitlines()[0], count=1) if self.message else self.state
        return f"{self.stage}: {first}" if self.stage else first


@dataclass(frozen=True)
class Finding:
    """The smallest case that fails, and how; ``is_smallest`` unless the time was over before the shrinking was."""

    tried: Tried
    name: str
    verdict: Verdict
    first: Tried
    is_smallest: bool
    repeats: bool = False  # whether it fails in a new process, too


@dataclass
class Search:
    """The search in one cell. ``verdicts`` has the cases that it has tried, by name."""

    worker: Worker
    case: Case  # a declared case of the cell
    space: Space
    seed: int
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    drawn: dict[str, None] = field(default_factory=dict)  # the tensors that the cases have drawn

    @property
    def matrix(self) -> Matrix:
        """The matrix of the cell."""
        return self.worker.matrix

    def run(self, known: Iterable[Tried], seconds: float) -> Finding | None:
        """Try the known cases, then others for three quarters of the time; the rest is for shrinking and repeating.

        Raises:
            WorkerError: the cases of the cell are not judged here.
        """
        began = time.monotonic()
        end = began + seconds * _SEARCHING
        axes = {axis: value for axis, value in self.case.axes.items() if axis != SEED}
        usual = Tried(self.space.op, self.space.direction, axes)
        try:
            for tried in (usual, *known):
                if (verdict := self.verdict(tried, end)).state == FAILED:
                    return self._repeated(self._finding(tried, tried, is_smallest=False))
                if tried is usual and verdict.state == NOT_JUDGED:
                    raise WorkerError(verdict.message)  # its device is not here
            found = self._searched(end, began + seconds * _SHRINKING)
        except _OverError:
            return None
        return found and self._repeated(found)

    def verdict(self, tried: Tried, end: float) -> Verdict:
        """Return the verdict on a case, from the memory if it was tried before."""
        name = tried.name(self.matrix.ops[tried.op])
        if name not in self.verdicts:
            self.verdicts[name] = self._judged(tried, end)
        return self.verdicts[name]

    def _judged(self, tried: Tried, end: float) -> Verdict:
        """Run a case; where it fails, ask whether the baseline passes it."""
        cell, op = self.case.cell, self.matrix.ops[tried.op]
        if excluded(self.matrix, cell, tried.all_axes(op)):
            return Verdict(NOT_TRIED)
        verdict = self._ended(self.worker, tried, end)
        if verdict.state != FAILED:
            return verdict
        reference = self.matrix.package.reference
        if reference in (None, cell.backend):  # there is none, or it would be asked about itself
            return verdict
        if self._ended(self.worker.baseline, tried, end).state != PASSED:
            return replace(verdict, state=NOT_JUDGED)
        return verdict

    def _ended(self, worker: Worker, tried: Tried, end: float) -> Verdict:
        """Run a case once."""
        limit = self.matrix.limits.case
        left = end - time.monotonic()
        if left <= 0:
            raise _OverError
        entry = worker.run(tried, min(limit, left))
        if entry is None:
            if left < limit:
                raise _OverError
            return Verdict(FAILED, f"no end after {limit:g} s", "timeout")
        if entry["entry"] == "death":
            return Verdict(FAILED, f"of the process that compares: {entry['message']}", "crash")
        self.drawn |= dict.fromkeys(entry["facts"].get(DRAWN, "").split())
        if entry["outcome"] == "pass":
            return Verdict(PASSED)
        if entry["outcome"] == "unavailable":
            return Verdict(NOT_JUDGED, entry["message"])
        if _NO_GOLDEN in entry["message"]:
            return Verdict(NOT_JUDGED, entry["message"])
        state = KNOWN if self._is_expected(tried, entry) else FAILED
        return Verdict(state, entry["message"], entry["stage"] or "")

    def _is_expected(self, tried: Tried, entry: Entry) -> bool:
        """Return whether matrix.yaml expects that a case fails so."""
        facts = {**self.case.cell.facts, **tried.all_axes(self.matrix.ops[tried.op])}
        return any(
            (rule.outcome, rule.stage) == (entry["outcome"], entry["stage"])
            and has_values(facts, rule.where)
            and is_found(rule.match, f"{entry['message']}\n{entry['detail']}")
            for rule in self.matrix.expectations
        )

    def _searched(self, end: float, last: float) -> Finding | None:
        """Let hypothesis search until the end, and shrink what it finds until the last moment."""
        failing: list[Tried] = []
        faults: dict[str, type[_FaultError]] = {}
        until = [end]

        @hypothesis.seed(self.seed)
        @_SETTINGS
        @hypothesis.given(self.space.with_tensors(tuple(self.drawn)).groups())
        def attempt(group: tuple[Tried, ...]) -> None:
            for tried in group:
                verdict = self.verdict(tried, until[0])
                if verdict.state == FAILED:
                    if not failing:
                        until[0] = last
                    failing.append(tried)
                    raise faults.setdefault(verdict.stage, type(f"Fault{len(faults)}", (_FaultError,), {}))

        is_smallest = False
        try:
            attempt()
        except _FaultError:
            is_smallest = True
        except _OverError:
            pass
        if not failing:
            return None
        smallest = failing[-1] if is_smallest else min(failing, key=self._size)
        try:
            smallest = self._smallest(smallest, last)
        except _OverError:
            is_smallest = False
        return self._finding(smallest, failing[0], is_smallest=is_smallest)

    def _finding(self, tried: Tried, first: Tried, *, is_smallest: bool) -> Finding:
        name = tried.name(self.matrix.ops[tried.op])
        return Finding(tried, name, self.verdicts[name], first, is_smallest)

    def _smallest(self, tried: Tried, last: float) -> Tried:
        """Return the smallest case that fails as this one does, as far as the space knows smaller ones."""
        of_case = self.verdict(tried, last)
        for other in self.space.smaller(tried):
            verdict = self.verdict(other, last)
            if (verdict.state, verdict.stage) == (FAILED, of_case.stage):
                return self._smallest(other, last)
        return tried

    def _size(self, tried: Tried) -> tuple[int, int, bool]:
        """Return how large a case is, to choose the smallest of several."""
        elements = 1
        for axis in self.space.sizes:
            elements *= int(tried.axes[axis])
        return len(tried.rules), elements, tried.views

    def _repeated(self, finding: Finding) -> Finding:
        """Run the smallest case in new processes, as another machine would."""
        self.worker.close()
        again = self._judged(finding.tried, time.monotonic() + 2 * self.matrix.limits.case)
        return replace(finding, repeats=again.state == FAILED)
