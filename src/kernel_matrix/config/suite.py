"""A matrix without operators: the cases are the tests of the package's own suite.

A test file is an operator, in the direction ``tests``; a test is a case. Which tests there are is known when a suite
has been collected in the environment of a toolchain. The results of a job say which tests its suite has, as facts of
the job. What was collected for one job is planned for all: a job whose suite lacks a test says so.

Where no tests are known, the plan has one case in their place for each lane: a row that was planned so runs all tests
of its lanes. That case never passes. It ends as an error where the tests could not be collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from kernel_matrix.config.model import ASSERTED, Matrix, Op, ScalarOrList, Tier, as_list, default_cap
from kernel_matrix.config.model.operators import FileOfTests, Lane
from kernel_matrix.config.plan import Case, Cell
from kernel_matrix.job.test_names import COLLECTED, SUITE, Key

_AXIS = "test"
_CELL = f"/{SUITE}.{ASSERTED}"  # ends the id of the cell whose case stands for all tests of a lane
_FACT, _LOST = "tests.", "tests.lost"  # begins the facts with the tests, as lines; the targets whose tests are unknown
_LONGEST = 200_000  # characters of a fact
_Op = TypeVar("_Op")


@dataclass(frozen=True)
class Listed:
    """The tests of each job, and the lanes that have a result and whose tests could not be collected."""

    tests: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)  # a test is the operator and the name of a case
    lost: frozenset[Lane] = frozenset()


def is_suite(matrix: Matrix) -> bool:
    """Return whether the cases of a matrix are the tests of the package's own suite."""
    return all(isinstance(op, FileOfTests) for op in matrix.ops.values())


def with_tests(matrix: Matrix, listed: Listed) -> Matrix:
    """Return the matrix with the tests as its operators and cases; one that names operators stays as it is."""
    if not is_suite(matrix):
        return matrix
    by_op = _by_op(chain(*listed.tests.values()))
    chosen = spread(by_op, matrix.package.sample) if matrix.package.sample else by_op
    ops = {op: _op(names, quick=chosen[op]) for op, names in by_op.items()}
    if not ops or listed.lost:
        ops = {SUITE: _op([COLLECTED], listed.lost if ops else None), **ops}
    caps = {ASSERTED: default_cap(), **matrix.accuracy.caps}
    return matrix.model_copy(
        update={
            "ops": ops,
            "package": matrix.package.model_copy(update={"directions": [ASSERTED]}),
            "accuracy": matrix.accuracy.model_copy(update={"caps": caps}),
        }
    )


def _by_op(tests: Iterable[Key]) -> dict[str, list[str]]:
    """Return the names of the tests by operator, each once, in the order of the first job that has it."""
    ops: dict[str, dict[str, None]] = {}
    for op, name in tests:
        ops.setdefault(op, {})[name] = None
    return {op: list(names) for op, names in ops.items()}


def spread(names: Mapping[_Op, Sequence[str]], count: int) -> dict[_Op, list[str]]:
    """Return ``count`` of the names of operators, spread over the operators and over the names of each."""
    chosen, left = dict[_Op, list[str]](), count
    for number, (op, listed) in enumerate(sorted(names.items(), key=lambda one: len(one[1]))):
        share = min(len(listed), -(-left // (len(names) - number)))  # what small ones do not take, larger ones get
        chosen[op], left = [listed[place * len(listed) // share] for place in range(share)], left - share
    return chosen


def _op(
    names: Sequence[str], lanes: frozenset[Lane] | None = None, *, quick: Sequence[str] | None = None
) -> FileOfTests:
    """Return a file with these tests, of which the quick tier has some; all where ``quick`` does not say."""
    chosen = dict.fromkeys(names if quick is None else quick)
    tiers: dict[Tier, list[str]] = {"quick": [*chosen], "full": [name for name in names if name not in chosen]}
    cases: dict[Tier, list[dict[str, ScalarOrList]]]
    cases = {tier: [{_AXIS: [*listed]}] for tier, listed in tiers.items() if listed}
    return FileOfTests(directions=[ASSERTED], axes=[_AXIS], cases=cases, lanes=lanes)


def sample_words(matrix: Matrix, tier: str) -> tuple[str, ...]:
    """Return the sentence that a tier has a sample of the tests; none where it has all."""
    ops = [spec for op, spec in matrix.ops.items() if op != SUITE and is_suite(matrix)]
    quick = sum(len(_listed(spec, "quick")) for spec in ops)
    every = quick + sum(len(_listed(spec, "full")) for spec in ops)
    if tier == "full" or quick == every:
        return ()
    words = (
        f"A sample: {quick:,} of the {every:,} tests, by `sample` in matrix.yaml. Of the others nothing is said here"
    )
    return (f"{words}; `--tier full` has all.",)


def _listed(spec: Op, tier: Tier) -> list[str]:
    """Return the tests that a tier adds."""
    return [str(name) for group in spec.cases.get(tier, ()) for name in as_list(group[_AXIS])]


def stands_for_all(cell: Cell) -> bool:
    """Return whether the case of a cell stands for all tests of its lane."""
    return cell.op == SUITE


def tests_of(matrix: Matrix) -> tuple[Key, ...]:
    """Return the tests that a matrix has as its cases."""
    ops = [(op, spec) for op, spec in matrix.ops.items() if op != SUITE]
    return tuple((op, name) for op, spec in ops for tier in ("quick", "full") for name in _listed(spec, tier))


def ids_by_lane(planned: Iterable[Case]) -> dict[str, list[str]]:
    """Return the ids of planned cases by their lane."""
    lanes: dict[str, list[str]] = {}
    for case in planned:
        lanes.setdefault(case.cell.id.rpartition("/")[0], []).append(case.id)
    return lanes


def with_new_tests(ids: Sequence[str], by_lane: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the ids of cases; in place of one that stands for all tests of its lane, or of its cell, these tests."""
    lanes = {name: name.removesuffix(f"/{COLLECTED}").removesuffix(_CELL) for name in ids if _stands_for_all(name)}
    return [case for name in ids for case in (by_lane.get(lanes.get(name, "")) or [name])]


def _stands_for_all(name: str) -> bool:
    return name.endswith((_CELL, f"{_CELL}/{COLLECTED}"))


def facts_of(tests: Iterable[Key], lost: Iterable[str] = ()) -> dict[str, str]:
    """Return the facts of a job that say which tests it has, and for which targets they could not be collected."""
    facts: dict[str, str] = {}
    lines: list[str] = []
    for line in (f"{op}/{name}" for op, name in tests):
        if sum(map(len, lines)) + len(lines) + len(line) > _LONGEST:
            facts[f"{_FACT}{len(facts) + 1}"] = "\n".join(lines)
            lines = []
        lines.append(line)
    if lines:
        facts[f"{_FACT}{len(facts) + 1}"] = "\n".join(lines)
    targets = " ".join(sorted(lost))
    return facts | ({_LOST: targets} if targets else {})


def has_tests(facts: Mapping[str, str]) -> bool:
    """Return whether the facts of a job say which tests it has."""
    return f"{_FACT}1" in facts or _LOST in facts


def listed_of(jobs: Mapping[str, Mapping[str, str]]) -> Listed:
    """Return what the facts of jobs say of their tests. A line that no job writes is left out."""
    lost = {
        (facts.get("platform", ""), target, facts.get("toolchain", ""))
        for facts in jobs.values()
        for target in facts.get(_LOST, "").split()
    }
    return Listed({job: tuple(_keys(facts)) for job, facts in jobs.items()}, frozenset(lost))


def _keys(facts: Mapping[str, str]) -> Iterator[Key]:
    number = 1
    while text := facts.get(f"{_FACT}{number}"):
        for line in text.split("\n"):
            op, _, name = line.partition("/")
            if _is_name(op) and _is_name(name) and op != SUITE:
                yield op, name
        number += 1


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 200 and "/" not in text and text.isprintable()
