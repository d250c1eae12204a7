"""Ask a comparison again, with faults in copies of its result, and keep what it let through, by its line."""

from __future__ import annotations

import json
import math
import threading
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernel_matrix.job.suite_canaries.callers import Callers

if TYPE_CHECKING:
    from kernel_matrix.job.suite_canaries.pair import Pair
    from kernel_matrix.job.suite_canaries.reach import Known

Passes = Callable[[Any, Any], bool]  # whether the suite's function takes two arrays for equal

FACT = "comparisons"  # of a case: its lines, as JSON
SHARE = 0.1  # of the CPU time since the process began that asking may take
_FREE = 1.0  # CPU seconds that it may take in any case: a small suite is over soon
_OFTEN = 2  # times that a line is asked about faults in one test
_MOST_LINES = 25  # of one test, in its fact
_CLEARLY = 1.05  # times what the first argument may be off: so much more of the second one is told


@dataclass
class Line:
    """A line of the suite that compares: how often each fault was put in, and how often it was let through."""

    call: str
    tried: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    asked: int = 0
    allows: float = 0.0  # the largest error of one element that it lets through; Inf where any number passes
    second: float = 0.0  # the same of the second argument, where that is more
    budget: float = 0.0  # the largest error that noise explains
    more: bool = False  # whether it compared what nobody could ask for ``allows``

    def take(self, fault: str, *, passed: bool) -> None:
        """Take what it made of a fault."""
        self.tried[fault] = self.tried.get(fault, 0) + 1
        self.passed[fault] = self.passed.get(fault, 0) + passed

    def words(self, at: str) -> dict[str, Any]:
        """Return what is known of it as JSON: for each fault how often it was tried and let through."""
        faults = {fault: [count, self.passed[fault]] for fault, count in self.tried.items()}
        known = {"allows": self.allows, "budget": self.budget}
        sizes: dict[str, Any] = {name: _short(value) for name, value in known.items() if value and math.isfinite(value)}
        if self.second > _CLEARLY * self.allows:
            sizes["second"] = _short(self.second) if math.isfinite(self.second) else None
        anything = {"anything": True} if math.isinf(self.allows) else {"at least": True} if self.more else {}
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
        self._known: dict[tuple[str, str], dict[Hashable, Known]] = {}  # of each line, by dtypes and tolerances
        self._busy: set[int] = set()  # threads in which a comparison goes on: those below it are parts of it

    def begin(self, file: str, test: str = "") -> None:
        """Begin with another test, a function of that file."""
        self._callers.begin(file, test)
        self.lines, self.skipped, self.spent = {}, 0, 0.0

    def enter(self) -> bool:
        """Begin a comparison; no if one goes on in this thread: those that are called meanwhile are not asked."""
        if (thread := threading.get_ident()) in self._busy:
            return False
        self._busy.add(thread)
        return True

    def leave(self) -> None:
        """End the comparison of this thread."""
        self._busy.discard(threading.get_ident())

    def is_over(self) -> bool:
        """Return whether there is no time, and the place that compares has been here before in this test."""
        return self._is_late(time.process_time()) and self._callers.is_again()

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
        whole: bool = False,
        tolerances: Hashable = (),
    ) -> None:
        """Ask a comparison that has found two arrays equal what it makes of faults. Nothing is raised.

        It is asked where the suite itself calls it: the package under test and libraries compare for reasons of their
        own. ``watched`` are the function of the comparison and what stands around it; it may answer for ``each``
        element, and compare ``whole`` numbers of Python. With other ``tolerances`` it is another comparison; None
        stands for any.
        """
        from kernel_matrix.job.suite_canaries.pair import leaves  # NumPy is there where arrays are compared

        began, used = time.perf_counter(), time.process_time()
        found = [*leaves(actual, expected, whole=whole)]
        if not found or not (at := self._callers.line(watched, asserts=asserts, each=each)):
            return
        line = self.lines.setdefault((at, call), Line(call))
        if self._is_late(used):
            self.skipped += line.asked < _OFTEN
            known = self._known.get((at, call), {}).values()
            line.allows, line.more = max([line.allows, *(one.allows for one in known)]), True
            return
        for n, (one, other, swapped) in enumerate(found):
            if n and self._is_late(time.process_time()):
                line.more = True
                break
            self._ask(line, at, (lambda a, b: passes(b, a)) if swapped else passes, one, other, tolerances)
            self._all_used += time.process_time() - used
            used = time.process_time()
        self.spent += time.perf_counter() - began

    def _is_late(self, now: float) -> bool:
        return self._all_used > _FREE + SHARE * (now - self._began)

    def _ask(self, line: Line, at: str, passes: Passes, actual: Any, expected: Any, tolerances: Hashable) -> None:
        from kernel_matrix.job.suite_canaries.reach import Known

        of_line = self._known.setdefault((at, line.call), {})
        key = tolerances, getattr(actual, "dtype", None), getattr(expected, "dtype", None)
        known = of_line.setdefault(key, Known())
        if tolerances is None:
            line.more = True
            known = of_line[key] = Known(known.allows)
        try:
            self._ask_pair(line, known, passes, actual, expected)
        except TypeError:
            pass  # these are no numbers
        except Exception:
            line.more = True
        line.allows, line.more = max(line.allows, known.allows), line.more or known.more
        line.second = max(line.second, known.second)

    def _ask_pair(self, line: Line, known: Known, passes: Passes, actual: Any, expected: Any) -> None:
        import numpy as np

        from kernel_matrix.job.suite_canaries.pair import paired
        from kernel_matrix.job.suite_canaries.reach import ends_of

        with np.errstate(all="ignore"):
            ends = ends_of(actual, expected)
            if line.asked >= _OFTEN and ends and not known.beyond(ends):
                return
            with warnings.catch_warnings(), np.printoptions(threshold=0, edgeitems=1):  # a message takes long
                warnings.simplefilter("ignore")
                pair = paired(actual, expected, ends.at if ends else ())
                if pair is None or not passes(pair.native(pair.rows), pair.expected):
                    line.more |= bool(ends)
                    return
                if (off := pair.by_one()) is not None and passes(off, pair.expected):
                    return  # it compares integers as floats
                budget = self._faults(line, passes, pair)
                known.ask(passes, (actual, expected), ends, pair, budget)

    @staticmethod
    def _faults(line: Line, passes: Passes, pair: Pair) -> float:
        """Put faults into a pair, if its line was not asked often, and return its budget."""
        from kernel_matrix.job.suite_canaries import faults

        line.budget = max(line.budget, budget := faults.budget_of(pair.finite, pair.exact, pair.bits))
        if line.asked < _OFTEN:
            line.asked += 1
            for fault, copy in faults.faulty_copies(pair.numbers, budget):
                if (faulty := pair.with_fault(copy, budget)) is not None:
                    line.take(fault, passed=passes(faulty, pair.expected))
        return budget


class OneAtATime:
    """Hold who asks in this process; nobody does before a run begins, or after it."""

    asking: Asking | None = None


def _short(value: float) -> float:
    """Return a number with three digits; the largest of all would be Inf then."""
    return short if math.isfinite(short := float(f"{value:.3g}")) else value


def words_of(fact: str) -> dict[str, Any]:
    """Return what a fact says of the lines of a test; of one that cannot be read, nothing."""
    try:
        said = json.loads(fact)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
