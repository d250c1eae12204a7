"""Make the plan of a matrix: every case of every cell, also where no machine can run it. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Literal

from kernel_matrix.config.model import (
    Direction,
    Exclusion,
    Expectation,
    Matrix,
    Op,
    Platform,
    PlatformToolchain,
    Scalar,
    ScalarOrList,
    Tier,
    as_list,
    has_values,
)
from kernel_matrix.config.owed import NamedCase, Owed, with_owed
from kernel_matrix.vendors.registry import vendor_named

Action = Literal["run", "emulate", "compile"]
TIMED = "-timed"  # ends the name of a timed case


@dataclass(frozen=True, order=True)
class Cell:
    """Platform × target × toolchain × op, in one direction."""

    platform: str
    target: str
    toolchain: str
    op: str
    direction: Direction
    backend: str = field(compare=False)
    package: str = field(compare=False)
    vendor: str = field(compare=False)  # whose devices run it
    action: Action = field(compare=False)  # what a machine with such a device does

    @cached_property
    def id(self) -> str:
        """Return the id, such as ``cuda/sm_90/compiler-1.2/op.forward``."""
        return f"{self.platform}/{self.target}/{self.toolchain}/{self.op}.{self.direction}"

    @cached_property
    def facts(self) -> dict[str, Scalar]:
        """The parts of the cell that ``where`` can name."""
        names = ("toolchain", "target", "platform", "op", "direction")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Case:
    """One operator with shape, dtype, input scale and seed, in one cell; ``owed`` is what its result must prove."""

    cell: Cell
    name: str
    axes: Mapping[str, Scalar]
    exclusion: Exclusion | None
    expectations: tuple[Expectation, ...]
    owed: Owed
    timed: bool = False
    is_quick: bool = True  # False if the full tier alone has it

    @property
    def id(self) -> str:
        """Return the cell's id and the case's name, as the option ``--case`` takes it."""
        return f"{self.cell.id}/{self.name}"


@dataclass(frozen=True)
class Job:
    """The cases of one toolchain on one platform, all or a shard of them. One environment or container runs them."""

    platform: str
    toolchain: str
    cases: tuple[Case, ...]
    shard: str = ""

    @property
    def id(self) -> str:
        """Return ``cuda.compiler-1.2``, or ``cuda.compiler-1.2.sm_90.2of3`` for a shard; its files have this stem."""
        return ".".join(part for part in (self.platform, self.toolchain, self.shard) if part)

    @property
    def timed(self) -> bool:
        """Return whether cases of it are timed."""
        return any(case.timed for case in self.cases)


_LAUNCH = "launch"  # the direction of what `kernel-matrix launches` has recorded


@dataclass(frozen=True)
class Plan:
    """All cases that must end in a state, in their jobs."""

    package: str
    tier: Tier
    jobs: tuple[Job, ...]

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """Return the cases of all jobs."""
        return tuple(case for job in self.jobs for case in job.cases)


def plan(matrix: Matrix, tier: Tier) -> Plan:
    """Return the jobs of ``tier`` in the order of matrix.yaml; the full tier holds the quick one."""
    return Plan(matrix.package.name, tier, tuple(_jobs(matrix, tier)))


def with_cases(plan: Plan, ids: Collection[str]) -> Plan:
    """Return the plan with only the cases of these ids."""
    jobs = (replace(job, cases=tuple(case for case in job.cases if case.id in ids)) for job in plan.jobs)
    return replace(plan, jobs=tuple(job for job in jobs if job.cases))


def outputs_not_named(plan: Plan) -> tuple[str, ...]:
    """Return a sentence about the operators whose outputs matrix.yaml does not name; none if it names all.

    Of a recorded launch nobody can name them: what it writes is known when it has run.
    """
    names = {
        f"{case.cell.op}.{case.cell.direction}": None
        for case in plan.cases
        if not (case.owed.outputs or case.owed.asserted) and case.cell.direction != _LAUNCH
    }
    if not names:
        return ()
    return (f"matrix.yaml does not name the outputs of {', '.join(names)}: a result is taken with any one output.",)


def targets_with_machine(platform: Platform) -> Sequence[str]:
    """Return the targets of a platform that have a machine: named, or all where any machine will do."""
    if platform.machines is not None:
        return tuple(platform.machines)
    return platform.targets if vendor_named(platform.device).hosted else ()


def _jobs(matrix: Matrix, tier: Tier) -> Iterator[Job]:
    """Yield the job of each platform toolchain, and after it the job of its timed cases if it has any."""
    directions = [(name, direction) for name, op in matrix.ops.items() for direction in op.directions]
    by_tier = {
        each: {
            (name, direction): with_owed(matrix, name, direction, expand(matrix.ops[name], each, direction))
            for name, direction in directions
        }
        for each in {"quick", tier}
    }
    quick, untimed = by_tier["quick"], by_tier[tier]
    timed = {
        (name, direction): with_owed(
            matrix, name, direction, combinations(matrix.ops[name], matrix.ops[name].timed, direction)
        )
        for name, direction in directions
    }
    for platform_name, platform in matrix.platforms.items():
        for toolchain, entry in platform.by_toolchain.items():
            cells = list(_cells_with_cases(matrix, tier, platform_name, toolchain, untimed))
            of_quick = dict(
                cells if tier == "quick" else _cells_with_cases(matrix, "quick", platform_name, toolchain, quick)
            )
            cases = tuple(case for cell, chosen in cells for case in _cases(matrix, cell, chosen, of_quick[cell]))
            yield Job(platform_name, toolchain, cases)
            on_hardware = targets_with_machine(platform) if entry.runs and not entry.emulated else ()
            cases = tuple(
                case
                for cell, _ in cells
                if cell.target in on_hardware
                for case in _cases(matrix, cell, timed[cell.op, cell.direction], timed=True)
            )
            if cases:
                yield Job(platform_name, toolchain, cases, "timed")


def _cells_with_cases(
    matrix: Matrix, tier: Tier, platform: str, toolchain: str, named: Mapping[tuple[str, str], list[NamedCase]]
) -> Iterator[tuple[Cell, list[NamedCase]]]:
    """Yield the cells of all entries of a toolchain on a platform, each with the cases that its entry has."""
    for entry in matrix.platforms[platform].entries:
        if entry.toolchain == toolchain:
            cells = list(_cells(matrix, platform, entry))
            has = {(cell.op, cell.direction) for cell in cells}
            chosen = {key: _chosen(entry, tier, named[key]) for key in has}
            yield from ((cell, chosen[cell.op, cell.direction]) for cell in cells)


def _chosen(entry: PlatformToolchain, tier: Tier, named: Iterable[NamedCase]) -> list[NamedCase]:
    """Return the cases of a cell that a platform toolchain has in a tier."""
    left = [case for case in named if chooses(entry.cases, case[1])]
    if tier == "full":
        return left
    choices = ([case for case in left if chooses(choice, case[1])] for choice in entry.quick_choices)
    return next(filter(None, choices), [])


def chooses(choice: Mapping[str, ScalarOrList], axes: Mapping[str, Scalar]) -> bool:
    """Return whether a case has one of the values for each axis; an axis that the case lacks leaves it in."""
    return all(axis not in axes or axes[axis] in as_list(values) for axis, values in choice.items())


def _cells(matrix: Matrix, platform: str, entry: PlatformToolchain) -> Iterator[Cell]:
    """Yield the cells of a platform toolchain: each of its targets with each operator that it has."""
    toolchain = matrix.toolchains[entry.toolchain]
    vendor = matrix.platforms[platform].device
    shared = toolchain.backend, matrix.package.name, vendor, _action(vendor, entry)
    for target in entry.targets or matrix.platforms[platform].targets:
        for op, direction in ops_of(matrix, entry):
            if matrix.ops[op].is_in((platform, target, entry.toolchain)):
                yield Cell(platform, target, entry.toolchain, op, direction, *shared)


def ops_of(matrix: Matrix, entry: PlatformToolchain) -> Iterator[tuple[str, Direction]]:
    """Yield the operators, each in its directions, that a platform toolchain has."""
    toolchain = matrix.toolchains[entry.toolchain]
    for op, spec in matrix.ops.items():
        for direction in spec.directions:
            names = {op, f"{op}.{direction}"}
            if all(ops is None or names & set(ops) for ops in (toolchain.ops, entry.ops)):
                yield op, direction


def _action(vendor: str, entry: PlatformToolchain) -> Action:
    """Return what a machine with a device of the vendor does with the cases of a platform toolchain.

    What runs on no device may still run in an emulator in its place.
    """
    if not entry.runs:
        return "emulate" if entry.emulator else "compile"
    return "emulate" if entry.emulated or vendor_named(vendor).emulates else "run"


def _cases(
    matrix: Matrix, cell: Cell, named: Iterable[NamedCase], of_quick: Iterable[NamedCase] = (), *, timed: bool = False
) -> Iterator[Case]:
    """Yield the cases of a cell, each with the rules that select it; the quick tier has all that are ``timed``."""
    quick = {name for name, *_ in of_quick}
    facts = cell.facts
    # Few rules could select a case of this cell, and of these only what they say of axes differs from case to case.
    exclusions = [(rule, _of_axes(rule, facts)) for rule in matrix.exclusions if _selects_some(rule, facts)]
    expectations = [(rule, _of_axes(rule, facts)) for rule in matrix.expectations if _selects_some(rule, facts)]
    for name, axes, owed in named:
        exclusion = next((rule for rule, where in exclusions if has_values(axes, where)), None) if exclusions else None
        expected = tuple(rule for rule, where in expectations if has_values(axes, where)) if expectations else ()
        is_quick = timed or name in quick
        yield Case(cell, f"{name}{TIMED}" if timed else name, axes, exclusion, expected, owed, timed, is_quick)


def _selects_some(rule: Exclusion | Expectation, facts: Mapping[str, Scalar]) -> bool:
    """Return whether a rule could select a case of a cell with these facts; axes of the case may still decide."""
    return all(key not in facts or facts[key] in as_list(values) for key, values in rule.where.items())


def _of_axes(rule: Exclusion | Expectation, facts: Mapping[str, Scalar]) -> dict[str, ScalarOrList]:
    """Return what a rule says of the axes of a case: all of ``where`` but the parts of a cell."""
    return {key: values for key, values in rule.where.items() if key not in facts}


def expand(op: Op, tier: Tier, direction: Direction) -> list[tuple[str, dict[str, Scalar]]]:
    """Return the cases of a tier as (name, axes); the full tier has the cases of the quick tier as well.

    Each group makes the product of its axes, in which the last axis changes first.
    """
    tiers: tuple[Tier, ...] = ("quick",) if tier == "quick" else ("quick", "full")
    groups = [group for name in tiers for group in op.cases.get(name, ())]
    return combinations(op, groups, direction)


def combinations(
    op: Op, groups: Iterable[Mapping[str, ScalarOrList]], direction: Direction
) -> list[tuple[str, dict[str, Scalar]]]:
    """Return the cases of some groups in one direction."""
    cases = []
    for group in groups:
        if "direction" in group and direction not in as_list(group["direction"]):
            continue
        values = [as_list(group[axis] if axis in group else op.defaults[axis]) for axis in op.axes]
        for combination in product(*values):
            axes = dict(zip(op.axes, combination, strict=True))
            cases.append((case_name(axes), axes))
    return cases


def case_name(axes: Mapping[str, Scalar]) -> str:
    """Return the name, such as ``tokens7-hidden200-bf16-gamma-scale1-seed0``; it determines the inputs."""
    return "-".join(_label(axis, value) for axis, value in axes.items())


def _label(axis: str, value: Scalar) -> str:
    if isinstance(value, bool):
        return axis if value else f"no_{axis}"
    if isinstance(value, str):
        return value
    return f"{axis}{value:g}"
