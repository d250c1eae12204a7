"""Matrix -> Plan: every case of every cell, whether or not some machine can run it. A pure function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

from kernel_matrix.config.model import (
    Direction,
    Exclusion,
    Expectation,
    Matrix,
    Op,
    PlatformToolchain,
    Scalar,
    ScalarOrList,
    Tier,
    as_list,
)


@dataclass(frozen=True, order=True)
class Cell:
    """One square of the dashboard: platform × target × toolchain × op, in one direction."""

    platform: str
    target: str
    toolchain: str
    op: str
    direction: Direction
    backend: str = field(compare=False)
    package: str = field(compare=False)

    @property
    def id(self) -> str:
        """``cuda/sm_90/triton-3.6/mhc_pre.forward``."""
        return f"{self.platform}/{self.target}/{self.toolchain}/{self.op}.{self.direction}"


@dataclass(frozen=True)
class Case:
    """One operator with shape, dtype, input scale and seed, in one cell."""

    cell: Cell
    name: str
    axes: Mapping[str, Scalar]
    exclusion: Exclusion | None
    expectations: tuple[Expectation, ...]
    timed: bool = False

    @property
    def id(self) -> str:
        """The cell's id and the case's name; what ``--case`` takes."""
        return f"{self.cell.id}/{self.name}"


@dataclass(frozen=True)
class Job:
    """What one environment or container runs: cases of one toolchain on one platform, all or a shard of them."""

    platform: str
    toolchain: str
    cases: tuple[Case, ...]
    shard: str = ""

    @property
    def id(self) -> str:
        """``cuda.triton-3.6``, or ``cuda.triton-3.6.sm_90.2of3`` for a shard; also the stem of its files."""
        return ".".join(part for part in (self.platform, self.toolchain, self.shard) if part)

    @property
    def alone(self) -> bool:
        """Whether it has the machine to itself: another job beside it would change what it measures."""
        return any(case.timed for case in self.cases)


@dataclass(frozen=True)
class Plan:
    """Everything that is to end in a state."""

    package: str
    tier: Tier
    jobs: tuple[Job, ...]

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases of all jobs."""
        return tuple(case for job in self.jobs for case in job.cases)


def plan(matrix: Matrix, tier: Tier) -> Plan:
    """List the jobs of ``tier`` in the order of matrix.yaml; the full tier holds the quick one."""
    return Plan(matrix.package.name, tier, tuple(_jobs(matrix, tier)))


def _jobs(matrix: Matrix, tier: Tier) -> Iterator[Job]:
    expanded = {(name, way): expand(op, tier, way) for name, op in matrix.ops.items() for way in op.directions}
    for platform_name, platform in matrix.platforms.items():
        for lane in platform.entries:
            toolchain = matrix.toolchains[lane.toolchain]
            cells = [
                Cell(platform_name, target, lane.toolchain, name, direction, toolchain.backend, matrix.package.name)
                for target in lane.targets or platform.targets
                for name, direction in expanded
                if all(ops is None or {name, f"{name}.{direction}"} & set(ops) for ops in (toolchain.ops, lane.ops))
            ]
            cases = tuple(
                _case(matrix, cell, name, axes) for cell in cells for name, axes in expanded[cell.op, cell.direction]
            )
            yield Job(platform_name, lane.toolchain, cases)
            timed = tuple(
                _case(matrix, cell, f"{name}-timed", axes, timed=True)
                for cell in cells
                if cell.target in platform.machines and lane.runs and not lane.emulated
                for name, axes in _combinations(matrix.ops[cell.op], matrix.ops[cell.op].timed, cell.direction)
            )
            if timed:
                yield Job(platform_name, lane.toolchain, timed, "timed")


def platform_toolchain(matrix: Matrix, platform: str, toolchain: str) -> PlatformToolchain:
    """The platform's entry for a toolchain."""
    return next(lane for lane in matrix.platforms[platform].entries if lane.toolchain == toolchain)


def expand(op: Op, tier: Tier, direction: Direction) -> list[tuple[str, dict[str, Scalar]]]:
    """The cases of a tier as (name, axes); a group stands for the product of its axes, the last one fastest."""
    groups = [group for name in ("quick", "full") if name in ("quick", tier) for group in op.cases.get(name, ())]
    return _combinations(op, groups, direction)


def _combinations(
    op: Op, groups: Iterable[Mapping[str, ScalarOrList]], direction: Direction
) -> list[tuple[str, dict[str, Scalar]]]:
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
    """``tokens7-streams4-hidden200-bf16-gamma-scale1-seed0``: the inputs' seed is made from this name."""
    return "-".join(_label(axis, value) for axis, value in axes.items())


def _label(axis: str, value: Scalar) -> str:
    if isinstance(value, bool):
        return axis if value else f"no_{axis}"
    if isinstance(value, str):
        return value
    return f"{axis}{value:g}"


def _case(matrix: Matrix, cell: Cell, name: str, axes: Mapping[str, Scalar], *, timed: bool = False) -> Case:
    facts: dict[str, Scalar] = {
        **axes,
        "platform": cell.platform,
        "target": cell.target,
        "toolchain": cell.toolchain,
        "op": cell.op,
        "direction": cell.direction,
    }
    exclusion = next((rule for rule in matrix.exclusions if selects(rule, facts)), None)
    expectations = tuple(rule for rule in matrix.expectations if selects(rule, facts))
    return Case(cell, name, axes, exclusion, expectations, timed)


def selects(rule: Exclusion | Expectation, facts: Mapping[str, Scalar]) -> bool:
    """Whether every key of the rule's ``where`` names one of its values for this case."""
    return all(key in facts and facts[key] in as_list(values) for key, values in rule.where.items())
