"""Search one cell after the other until the time is over; or run cases again by their names."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256

from kernel_matrix.base.commands import command
from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.base.words import counted, some
from kernel_matrix.config.plan import Case
from kernel_matrix.config.selection import Selection
from kernel_matrix.pipeline import Project
from kernel_matrix.report import checks
from kernel_matrix.run.executors import InstallError, MachineError, Prepare, UnavailableError
from kernel_matrix.run.settings import load_executor
from kernel_matrix.tools.fuzz import case_names
from kernel_matrix.tools.fuzz.case_names import BEGIN, Tried
from kernel_matrix.tools.fuzz.findings import Searched, check_of, totals, words
from kernel_matrix.tools.fuzz.lanes import Lane, lanes_of
from kernel_matrix.tools.fuzz.search import FAILED, Finding, Search
from kernel_matrix.tools.fuzz.space import space_of
from kernel_matrix.tools.fuzz.worker import Worker, WorkerError
from kernel_matrix.vendors.machine import detect

_LEAST = 45.0  # seconds that a cell is searched at least

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """The options of the command."""

    platforms: tuple[str, ...]
    targets: tuple[str, ...]
    toolchains: tuple[str, ...]
    cases: tuple[str, ...]
    seconds: float
    seed: int
    executor: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of cases of the fuzzer among the cases."""
        return tuple(case for case in self.cases if case.startswith(BEGIN))

    @property
    def ops(self) -> tuple[str, ...]:
        """The operators with their directions among the cases."""
        return tuple(case for case in self.cases if not case.startswith(BEGIN))


def search(project: Project, wish: Wish, say: Say) -> bool:
    """Search the cells in an order that the seed decides, and print what is found. Return whether a case fails.

    The results are a check for the report.
    """
    whole, project = project, _own(project)
    known = [case_names.read(project.matrix, name) for name in project.matrix.fuzz.known]
    order = random.Random(wish.seed)  # noqa: S311 (no secret: the seed decides)
    lanes = _lanes(project, wish, wish.ops, say)
    order.shuffle(lanes)
    cells = [(lane, order.sample(lane.cases, len(lane.cases))) for lane in lanes]
    count = sum(len(cases) for _, cases in cells)
    say(f"seed {wish.seed}, {counted(count, 'cell')}, {wish.seconds / 60:g} min")
    began, results = time.time(), list[Searched]()
    try:
        for result in _results(project, wish, known, cells, say):
            results.append(result)
            say(f"{result.case.cell.id}: {totals(result.states)} in {result.seconds:.0f} s")
            if result.finding:
                again = command(["fuzz", *whole.options, *result.lane.options, "--case", result.finding.name])
                say(words(project.matrix.ops[result.case.cell.op], result.finding, again))
    finally:  # an interrupted search keeps what it has tried
        note = f"seed {wish.seed}; {wish.seconds / 60:g} min for {len(results)} of {count} cells"
        check = check_of(project, results, began, note)
        say(f"written: {checks.write(check, whole.build, f'fuzz-{_digest(wish)}')}")
    return any(result.finding for result in results)


def _results(
    project: Project, wish: Wish, known: Sequence[Tried], cells: Sequence[tuple[Lane, Sequence[Case]]], say: Say
) -> Iterator[Searched]:
    """Search one cell after the other until the time is over: each gets an equal part, and some seconds at least."""
    left, waiting = wish.seconds, sum(len(cases) for _, cases in cells)
    with load_executor(wish.executor) as prepare:
        for lane, cases in cells:
            try:
                with _worker(lane, prepare) as worker:
                    for case in cases:
                        if left <= 0:
                            say(f"{waiting} cells were not tried: the time is over")
                            return
                        one = Search(worker, case, space_of(project.matrix, case.cell, lane.entry), wish.seed)
                        own = [it for it in known if (it.op, it.direction) == (case.cell.op, case.cell.direction)]
                        began = time.monotonic()
                        try:
                            finding = one.run(own, min(left, max(_LEAST, left / waiting)))
                        except KeyboardInterrupt:
                            yield _searched(lane, one, began, None)
                            raise
                        result = _searched(lane, one, began, finding)
                        left, waiting = left - result.seconds, waiting - 1
                        yield result
            except WorkerError as error:
                say(f"{lane.name}: not searched: {error}")


def _digest(wish: Wish) -> str:
    """Return a name for what is searched: a later search of the same takes the place of an earlier one."""
    parts = repr((wish.platforms, wish.targets, wish.toolchains, wish.ops))
    return sha256(parts.encode()).hexdigest()[:8]


def _searched(lane: Lane, one: Search, began: float, finding: Finding | None) -> Searched:
    """Return what the search of a cell has tried and found."""
    states = Counter(verdict.state for verdict in one.verdicts.values())
    return Searched(lane, one.case, states, time.monotonic() - began, finding)


def repeat(project: Project, wish: Wish, say: Say) -> bool:
    """Run the named cases in every lane of the selection, and print how each ends.

    Return whether one fails, or names a tensor that it does not draw.
    """
    project = _own(project)
    tried = [case_names.read(project.matrix, name) for name in wish.names]
    ops = list(dict.fromkeys(f"{one.op}.{one.direction}" for one in tried))
    lanes = _lanes(project, wish, ops, say)
    fails = False
    with load_executor(wish.executor) as prepare:
        for lane in lanes:
            with _worker(lane, prepare) as worker:
                for one in tried:
                    case = lane.case_of(one.op, one.direction)
                    found = Search(worker, case, space_of(project.matrix, case.cell, lane.entry), one.seed)
                    verdict = found.verdict(one, time.monotonic() + 2 * project.matrix.limits.case)
                    fails |= verdict.state == FAILED
                    say(f"{lane.name}: {verdict.state} {one.name(project.matrix.ops[one.op])}")
                    if verdict.message:
                        say(f"  {verdict.words}")
                    if found.drawn and (absent := {rule.tensor for rule in one.rules} - found.drawn.keys()):
                        drawn = ", ".join(found.drawn)
                        say(f"  no value was unusual in {some(sorted(absent))}: this case draws {drawn}")
                        fails = True
    return fails


def _lanes(project: Project, wish: Wish, ops: Sequence[str], say: Say) -> list[Lane]:
    """Return the lanes that are asked for.

    Raises:
        UserError: none of them runs here.
    """
    selection = Selection(platforms=wish.platforms, toolchains=wish.toolchains)
    lanes = lanes_of(project, detect(), selection, ops, say)
    for target in wish.targets:
        if target not in (targets := sorted({lane.target for lane in lanes})):
            raise unknown("--target", "target that runs here", target, targets)
    return [lane for lane in lanes if not wish.targets or lane.target in wish.targets]


@contextmanager
def _worker(lane: Lane, prepare: Prepare) -> Iterator[Worker]:
    """Give the process of a lane, in its environment.

    Raises:
        WorkerError: it has no environment here.
    """
    try:
        interpreter = prepare(lane.request)
    except (UnavailableError, InstallError, MachineError) as error:
        raise WorkerError(str(error).splitlines()[-1]) from None
    request = replace(lane.request, root=interpreter.root) if interpreter.root else lane.request
    worker = Worker(request, interpreter, lane.cases, lane.actions)
    try:
        yield worker
    finally:
        worker.close()


def _own(project: Project) -> Project:
    """Return the project with a build folder of its own, which shares the environments and the caches."""
    if not project.matrix.ops:
        raise UserError("matrix.yaml has no operators: the fixture 'matrix' searches in a test (docs/fuzzing.md).")
    return project.apart("fuzz", shares=("envs", "cache"))
