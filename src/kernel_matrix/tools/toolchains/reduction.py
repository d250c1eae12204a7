"""The smallest case that still fails like a failed one, found by running cases with other axes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kernel_matrix import pipeline
from kernel_matrix.config.model import Op, Scalar, ScalarOrList
from kernel_matrix.config.plan import Case
from kernel_matrix.pipeline import Project
from kernel_matrix.run import schedule
from kernel_matrix.run.settings import Settings
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record
from kernel_matrix.tools.toolchains.try_version import Silent
from kernel_matrix.vendors.machine import Machine

Axes = Mapping[str, Scalar]
# Which of several axes still fail alike: all are asked at once, so that they share a process.
StillFail = Callable[[Sequence[Axes]], Sequence[bool]]

_NOT_A_SHAPE = ("scale", "seed", "dtype")
_ROUNDS = 3


@dataclass(frozen=True)
class Reduction:
    """A failure with the simplest axes that still give it.

    ``specification`` is the text of the job that repeats it; it is empty when the failure did not come again.
    """

    record: Record
    axes: dict[str, Scalar]
    tried: list[str]
    specification: str = ""


@dataclass(frozen=True)
class Rerun:
    """Runs a failed case with other axes, through the pipeline and in the environment of the case."""

    project: Project
    machine: Machine
    case: Case
    executor: str = "venv"

    @property
    def reduced(self) -> Project:
        """The project, with a build folder of its own that shares the environments."""
        return self.project.apart("reduced")

    def __call__(self, several: Sequence[Axes]) -> list[Record]:
        """Return the records of the case with each of these axes, in their order."""
        cell = self.case.cell
        groups: list[dict[str, ScalarOrList]] = [dict(axes) for axes in several]
        op = Op(directions=[cell.direction], axes=list(self.case.axes), cases={"quick": groups})
        changes = {"ops": {cell.op: op}, "exclusions": [], "expectations": []}
        reduced = self.reduced
        project = replace(reduced, matrix=self.project.matrix.model_copy(update=changes))
        [job] = [
            replace(job, cases=tuple(case for case in job.cases if case.cell.target == cell.target))
            for job in pipeline.plan(project, "quick").jobs
            if (job.platform, job.toolchain) == (cell.platform, cell.toolchain)
        ]
        settings = Settings(project.root, project.build, self.executor)
        files = schedule.run(project.matrix, [job], self.machine, settings, Silent())
        records = {record.case: record for record in collect(files).records}
        return [records.get(case.id, Record(case.id, "missing")) for case in job.cases]

    def specification(self) -> str:
        """Return the text of the job that ran last, and delete the job's folder."""
        folder = self.reduced.build / "jobs" / f"{self.case.cell.platform}.{self.case.cell.toolchain}"
        text = (folder / "job.json").read_text(encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        return text


def reduce_case(rerun: Rerun, failed: Record) -> Reduction:
    """Return the reduced failure.

    The case is run once as it is first. When it does not fail like that on this machine, it is left as it was recorded.
    """
    [again] = rerun([rerun.case.axes])
    if not same_failure(again, failed):
        return Reduction(failed, dict(rerun.case.axes), ["run again here it did not fail so, and was not reduced"])

    def still_fail(several: Sequence[Axes]) -> list[bool]:
        return [same_failure(record, failed) for record in rerun(several)]

    axes, tried = reduce(rerun.case.axes, still_fail)
    [record] = rerun([axes])
    return Reduction(record, axes, tried, rerun.specification())


def reduce(axes: Axes, still_fail: StillFail) -> tuple[dict[str, Scalar], list[str]]:
    """Return the smallest shape and the plainest dtype that still fail, and what was tried on the way.

    One axis at a time takes its smallest value that fails, until no axis moves any more.
    """
    best, tried = dict(axes), list[str]()
    for _ in range(_ROUNDS):
        before = dict(best)
        for axis in axes:
            candidates = [{**best, axis: value} for value in _simpler(axis, best[axis])]
            if not candidates:
                continue
            failing = still_fail(candidates)
            for candidate, fails in zip(candidates, failing, strict=True):
                tried.append(f"{axis} {candidate[axis]}: {'fails too' if fails else 'does not fail so'}")
            best = next((dict(c) for c, fails in zip(candidates, failing, strict=True) if fails), best)
        if best == before:
            break
    return best, list(dict.fromkeys(tried))


def _simpler(axis: str, value: Scalar) -> list[Scalar]:
    """Return simpler values of an axis, the simplest first."""
    if axis == "dtype":
        return ["fp32"] if value != "fp32" else []
    if axis in _NOT_A_SHAPE or isinstance(value, (bool, str, float)):
        return []
    return [small for small in (1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 256) if small < value]


def same_failure(one: Record, other: Record) -> bool:
    """Return whether two records fail alike: the outcome, the stage, and the message except for its numbers."""
    if (one.outcome, one.stage) != (other.outcome, other.stage):
        return False
    return one.outcome == "fail" or _without_numbers(one.message) == _without_numbers(other.message)


def _without_numbers(message: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", message.partition("\n")[0])
