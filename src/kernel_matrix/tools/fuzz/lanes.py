"""The lanes that this machine can run: a toolchain on a platform and a target, with its cells and its environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_matrix import pipeline
from kernel_matrix.base.errors import UserError, unknown
from kernel_matrix.config.model import Matrix, PlatformToolchain, Scalar, has_values
from kernel_matrix.config.plan import Case, Cell, Job
from kernel_matrix.config.selection import Selection, narrow
from kernel_matrix.pipeline import Project
from kernel_matrix.run.decide import Decision, decide, device_of
from kernel_matrix.run.executors import Request
from kernel_matrix.vendors.machine import Machine

_DOES_SO = ("run", "emulate")


@dataclass(frozen=True)
class Lane:
    """A toolchain on a target, with one case of each of its cells that this machine runs."""

    request: Request
    entry: PlatformToolchain
    target: str
    cases: tuple[Case, ...]
    actions: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return ``PLATFORM/TARGET/TOOLCHAIN``."""
        return f"{self.request.job.platform}/{self.target}/{self.request.job.toolchain}"

    @property
    def options(self) -> list[str]:
        """Return the options of the command that name the lane."""
        job = self.request.job
        return ["--platform", job.platform, "--target", self.target, "--toolchain", job.toolchain]

    def case_of(self, op: str, direction: str) -> Case:
        """Return the case of a cell."""
        return next(case for case in self.cases if (case.cell.op, case.cell.direction) == (op, direction))


def lanes_of(
    project: Project, machine: Machine, selection: Selection, ops: Sequence[str], say: Callable[[str], None]
) -> list[Lane]:
    """Return the lanes of the selection that this machine runs; ``ops`` are ``OP.DIRECTION``, all where none is named.

    Raises:
        UserError: a name is not in the matrix, or nothing of what is asked for can run here.
    """
    matrix = project.matrix
    known = [f"{name}.{way}" for name, op in matrix.ops.items() for way in op.directions]
    for name in ops:
        if name not in known:
            raise unknown("--case", "operator", name, known)
    planned = pipeline.plan(project, "quick")
    lanes = [
        lane
        for job in narrow(matrix, planned, planned.jobs, selection)
        if not job.timed
        for lane in _lanes_of(project, machine, job, ops, say)
    ]
    if not lanes:
        has = f" has {' or '.join(ops)} and" if ops else ""
        raise UserError(f"no lane that is asked for{has} runs on this machine, and only what runs can be searched.")
    return lanes


def excluded(matrix: Matrix, cell: Cell, axes: Mapping[str, Scalar]) -> bool:
    """Return whether matrix.yaml leaves out such a case."""
    return any(has_values({**cell.facts, **axes}, rule.where) for rule in matrix.exclusions)


def _lanes_of(
    project: Project, machine: Machine, job: Job, ops: Sequence[str], say: Callable[[str], None]
) -> list[Lane]:
    matrix, decisions, of_target = project.matrix, dict[str, Decision](), dict[str, list[Case]]()
    for case in job.cases:
        if ops and f"{case.cell.op}.{case.cell.direction}" not in ops:
            continue
        cells = of_target.setdefault(case.cell.target, [])
        if any(case.cell == other.cell for other in cells):
            continue
        decision = decide(matrix, case, machine)
        if decision.action in _DOES_SO:
            decisions[case.id] = decision
            cells.append(case)
    lanes = []
    for target, cases in of_target.items():
        if cases:
            part = replace(job, cases=tuple(cases), shard=target)
            request = Request(project.root, project.build, matrix, part, device_of(part, decisions), say)
            actions = {case.id: decisions[case.id].action for case in cases}
            lanes.append(Lane(request, _entry(matrix, job, target), target, tuple(cases), actions))
    return lanes


def _entry(matrix: Matrix, job: Job, target: str) -> PlatformToolchain:
    """Return the entry of matrix.yaml that has the toolchain's cases on a target."""
    platform = matrix.platforms[job.platform]
    own = [entry for entry in platform.entries if entry.toolchain == job.toolchain]
    return next(entry for entry in own if target in (entry.targets or platform.targets))
