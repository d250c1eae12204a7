"""Plan -> RowPlan: which rows an event asks for; as a file, it travels to the machines and to ``report``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernel_matrix.base.errors import UserError, did_you_mean
from kernel_matrix.config.model import Event, Matrix, Tier
from kernel_matrix.config.plan import Job, Plan
from kernel_matrix.machines.rows import Row, estimate, rows
from kernel_matrix.machines.selection import choose, lock_files

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class RowPlan:
    """What was planned for one event: the rows, why each job is in it, and what was left out."""

    event: str
    tier: Tier
    rows: tuple[Row, ...]
    excluded: bool = False  # whether the excluded cases are tried too
    left_out: int = 0
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs of all rows."""
        return tuple(job for row in self.rows for job in row.jobs)

    def row_of(self) -> dict[str, Row]:
        """The row of each case, by the case's id."""
        return {case.id: row for row in self.rows for job in row.jobs for case in job.cases}


def spread(
    matrix: Matrix,
    planned: Plan,
    measured: Mapping[str, float],
    *,
    event: str = "",
    paths: Sequence[str] | None = None,
    hosted_only: bool = False,
) -> RowPlan:
    """Who does what of a plan: what the event asks for, what the changed files concern, on which machine.

    ``paths`` are the changed files, None for all; ``measured`` are seconds by case. A pure function.
    """
    asked = matrix.ci.events.get(event, Event())
    changed = set(paths or ())
    jobs = [
        job
        for job in planned.jobs
        if asked.toolchains is None
        or job.toolchain in asked.toolchains
        or changed & {*lock_files(matrix.toolchains[job.toolchain].lock)}
    ]
    reasons: Mapping[str, str] = {}
    if paths is not None:
        choice = choose(matrix, jobs, paths)
        jobs, reasons = list(choice.jobs), choice.reasons
    seconds = estimate(matrix, planned.cases, measured)
    placed = rows(matrix, jobs, seconds, hosted_only=hosted_only)
    left_out = len(planned.cases) - sum(len(job.cases) for job in jobs)
    return RowPlan(event, planned.tier, placed, asked.excluded, left_out, reasons)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Job(_Model):
    platform: str
    toolchain: str
    shard: str
    cases: list[str]


class _Row(_Model):
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=200)
    platform: str
    labels: list[str]
    own: bool
    seconds: float
    jobs: list[_Job]


class _File(_Model):
    schema_version: int
    event: str
    tier: Tier
    excluded: bool
    left_out: int
    reasons: dict[str, str]
    rows: list[_Row]


def to_json(spread: RowPlan) -> str:
    """The file's text."""
    whole: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "event": spread.event,
        "tier": spread.tier,
        "excluded": spread.excluded,
        "left_out": spread.left_out,
        "reasons": dict(spread.reasons),
        "rows": [
            {
                "id": row.id,
                "platform": row.platform,
                "labels": list(row.labels),
                "own": row.own,
                "seconds": round(row.seconds, 1),
                "jobs": [
                    {"platform": job.platform, "toolchain": job.toolchain, "shard": job.shard,
                     "cases": [case.id for case in job.cases]} for job in row.jobs
                ],
            }
            for row in spread.rows
        ],
    }  # fmt: skip
    return json.dumps(whole, indent=1) + "\n"


def tier_of(path: Path) -> Tier:
    """The tier that a plan's file was made for."""
    return _read(path).tier


def from_json(path: Path, planned: Plan) -> RowPlan:
    """Read the file back against the plan of the matrix that is here.

    Raises:
        UserError: it is no such file, or speaks of cases that this matrix does not have.
    """
    file = _read(path)
    cases = {case.id: case for case in planned.cases}
    found = []
    for row in file.rows:
        jobs = []
        for job in row.jobs:
            unknown = [case for case in job.cases if case not in cases]
            if unknown:
                raise UserError(
                    f"{path}: row {row.id}: matrix.yaml has no case '{unknown[0]}'. The plan was made from another "
                    "matrix.yaml; make it anew: ci/nox -s plan"
                )
            jobs.append(Job(job.platform, job.toolchain, tuple(cases[case] for case in job.cases), job.shard))
        found.append(Row(row.id, row.platform, tuple(row.labels), row.own, tuple(jobs), row.seconds))
    return RowPlan(file.event, file.tier, tuple(found), file.excluded, file.left_out, file.reasons)


def _read(path: Path) -> _File:
    try:
        file = _File.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}. Make the plan first: ci/nox -s plan") from None
    except (ValidationError, UnicodeDecodeError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path}: {where}: {first['msg']}. Make the plan anew: ci/nox -s plan") from None
    if file.schema_version != SCHEMA_VERSION:
        raise UserError(
            f"{path}: this is a plan of version {file.schema_version}, and {SCHEMA_VERSION} is read here. Make it anew."
        )
    return file


def row(spread: RowPlan, name: str) -> Row:
    """The row of that name.

    Raises:
        UserError: there is none.
    """
    for found in spread.rows:
        if found.id == name:
            return found
    raise UserError(f"--row {name}: the plan has no such row.{did_you_mean(name, [r.id for r in spread.rows])[:300]}")


def planned_by(spread: RowPlan, planned: Plan) -> Plan:
    """The plan with only what the rows hold."""
    return replace(planned, jobs=spread.jobs)
