"""Ask a comparison again, with faults in copies of its result, and keep what it let through, by its line."""

from __future__ import annotations

import contextlib
import json
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_matrix.job.suite_canaries.callers import Callers

Passes = Callable[[Any, Any], bool]  # whether the suite's function takes two arrays for equal

FACT = "comparisons"  # of a case: its lines, as JSON
SHARE = 0.1  # of the CPU time since the process began that asking may take
_FREE = 1.0  # CPU seconds that it may take in any case: a small suite is over soon
_OFTEN = 2  # times that a line is asked in one test
_MOST_LINES = 25  # of one test, in its fact
_WHOLE = 1 << 14  # elements of an array that is taken whole
_STEP = 1.1  # the factor to which the largest error is told that passes
_ROWS, _COLUMNS = 32, 512  # of a larger one


@dataclass
class Line:
    """A line of the suite that compares: how often each fault was put in, and how often it was let through."""

    call: str
    tried: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    allows: float = 0.0  # the largest error of one element that it lets through; Inf where any number passes
    budget: float = 0.0  # the largest error that noise explains

    def take(self, fault: str, *, passed: bool) -> None:
        """Take what it made of a fault."""
        self.tried[fault] = self.tried.get(fault, 0) + 1
        self.passed[fault] = self.passed.get(fault, 0) + passed

    def words(self, at: str) -> dict[str, Any]:
        """Return what is known of it as JSON: for each fault how often it was tried and let through."""
        faults = {fault: [count, self.passed[fault]] for fault, count in self.tried.items()}
        known = {"allows": self.allows, "budget": self.budget}
        sizes = {name: _short(value) for name, value in known.items() if value and math.isfinite(value)}
        anything = {"anything": True} if math.isinf(self.allows) else {}
        return {"at": at, "call": self.call, "faults": faults, **sizes, **anything}


class Asking:
    """Keep what was asked of the lines of the test that runs."""

    def __init__(self, root: Path, suite: Path | None = None) -> None:
        """Name lines by their files below ``root``. ``suite`` is the folder of the suite, if it is known."""
        self._callers = Callers(root, suite)
        self.lines: dict[tuple[str, str], Line] = {}
        self.skipped = 0  # comparisons of this test for which there was no time
        self.spent = 0.0  # seconds of asking in this test
        self._began, self._all_used = time.process_time(), 0.0
        self._allows: dict[tuple[str, int | None, bool], float] = {}
        self._busy: set[int] = set()  # threads in which a comparison goes on: those below it are parts of it

    def begin(self, file: str, test: str = "") -> None:
        """Begin with another test, a function of that file."""
        self._callers.begin(file, test)
        self.lines, self.skipped, self.spent = {}, 0, 0.0

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Yield whether no comparison goes on in this thread; those that are called meanwhile are not asked."""
        thread = threading.get_ident()
        if thread in self._busy:
            yield False
            return
        self._busy.add(thread)
        try:
            yield True
        finally:
            self._busy.discard(thread)

    def facts(self) -> dict[str, str]:
        """Return what is known of the test's lines, those that let most through first; nothing where none compares."""
        lines = [line.words(at) for (at, _), line in self.lines.items() if line.tried or line.allows]
        lines.sort(key=lambda line: -sum(count > 0 for _, count in line["faults"].values()))
        if not lines and not self.skipped:
            return {}
        more = {"left out": len(lines) - _MOST_LINES} if lines[_MOST_LINES:] else {}
        said = {"lines": lines[:_MOST_LINES], **more, **({"no time": self.skipped} if self.skipped else {})}
        return {FACT: json.dumps(said, separators=(",", ":"))}

    def ask(
        self,
        call: str,
        passes: Passes,
        actual: Any,
        expected: Any,
        *,
        asserts: bool,
        each: bool = False,
        watched: Sequence[Any] = (),
    ) -> None:
        """Ask a comparison that has found two arrays equal what it makes of faults. Nothing is raised.

        It is asked where the suite itself calls it: the package under test and libraries compare for reasons of their
        own. ``watched`` are the function of the comparison and what stands around it; it may answer for ``each``
        element.
        """
        if not (at := self._callers.line(watched, asserts=asserts, each=each)):
            return
        line = self.lines.setdefault((at, call), Line(call))
        if line.asked >= _OFTEN:
            return
        began, used = time.perf_counter(), time.process_time()
        if self._all_used > _FREE + SHARE * (used - self._began):
            self.skipped += 1
            return
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._ask(line, at, passes, actual, expected)
        self.spent += time.perf_counter() - began
        self._all_used += time.process_time() - used

    def _ask(self, line: Line, at: str, passes: Passes, actual: Any, expected: Any) -> None:
        import numpy as np  # where arrays are compared it is there

        from kernel_matrix.job.suite_canaries import faults
        from kernel_matrix.job.suite_canaries.pair import paired

        with np.errstate(all="ignore"), np.printoptions(threshold=0, edgeitems=1):  # a message takes long
            pair = paired(actual, expected, _WHOLE, _ROWS, _COLUMNS)
            if pair is None or not passes(pair.native(pair.rows), pair.expected):
                return
            line.asked += 1
            line.budget = max(line.budget, budget := faults.budget_of(pair.finite, pair.exact, pair.bits))
            for fault, copy in faults.faulty_copies(pair.numbers, budget):
                if (faulty := pair.with_fault(copy, budget)) is not None:
                    line.take(fault, passed=passes(faulty, pair.expected))
            key = at, pair.bits, budget > 0
            if key not in self._allows:
                self._allows[key] = self._allowed(passes, pair, budget)
            line.allows = max(line.allows, self._allows[key])

    @staticmethod
    def _allowed(passes: Passes, pair: Any, budget: float) -> float:
        """Return the largest error of one element that passes, to a tenth; Inf where any number passes.

        It is 0 where that is below the budget.
        """

        def lets(at: int, power: float) -> bool:
            return passes(pair.off(at, 2.0**power)[0], pair.expected)

        allowed = 0.0
        for at in pair.places if pair.most else ():
            top = math.log2(pair.most)
            low = min(math.log2(max(pair.least, budget, _STEP * allowed)), top)
            if not lets(at, low):
                continue
            step = 4.0  # upwards at first: to say no takes longer
            while (high := min(low + step, top)) > low and lets(at, high):
                low, step = high, 2 * step
            if low == top and passes(pair.far_off(at), pair.expected):
                return math.inf
            while high - low > math.log2(_STEP):
                middle = (low + high) / 2
                low, high = (middle, high) if lets(at, middle) else (low, middle)
            allowed = max(allowed, pair.off(at, 2.0**low)[1])
        return allowed


class OneAtATime:
    """Hold who asks in this process; nobody does before a run begins, or after it."""

    asking: Asking | None = None


def _short(value: float) -> float:
    """Return a number with two digits; the largest of all would be Inf then."""
    return short if math.isfinite(short := float(f"{value:.2g}")) else value


def words_of(fact: str) -> dict[str, Any]:
    """Return what a fact says of the lines of a test; of one that cannot be read, nothing."""
    try:
        said = json.loads(fact)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
