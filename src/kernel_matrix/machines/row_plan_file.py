"""The file of a row plan (``--plan FILE``): written once by ``plan``, read by every machine and by ``report``."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kernel_matrix.base.errors import UserError, first_fault
from kernel_matrix.config.model import Tier
from kernel_matrix.config.plan import Case, Job, Plan
from kernel_matrix.config.suite import with_new_tests
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row

SCHEMA_VERSION = 1


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


def to_json(row_plan: RowPlan) -> str:
    """Return the text of the file."""
    file = _File(
        schema_version=SCHEMA_VERSION,
        event=row_plan.event,
        tier=row_plan.tier,
        excluded=row_plan.excluded,
        left_out=row_plan.left_out,
        reasons=dict(row_plan.reasons),
        rows=[_row(row) for row in row_plan.rows],
    )
    return file.model_dump_json(indent=1) + "\n"


def tier_of(path: Path) -> Tier:
    """Return the tier that the file was made for.

    Raises:
        UserError: the file is not a row plan.
    """
    return _read(path).tier


def from_json(path: Path, planned: Plan) -> RowPlan:
    """Read the file, with the cases of the plan that is made from the present matrix.yaml.

    Raises:
        UserError: the file is not a row plan, or names cases that the present matrix.yaml does not have.
    """
    file = _read(path)
    cases = {case.id: case for case in planned.cases}
    rows = []
    named = {name for row in file.rows for job in row.jobs for name in job.cases}
    for row in file.rows:
        jobs = tuple(
            Job(
                job.platform,
                job.toolchain,
                with_new_tests(_cases(path, row.id, job.cases, cases), planned.cases, named),
                job.shard,
            )
            for job in row.jobs
        )
        rows.append(Row(row.id, row.platform, tuple(row.labels), row.own, jobs, row.seconds))
    return RowPlan(file.event, file.tier, tuple(rows), file.excluded, file.left_out, file.reasons)


def _row(row: Row) -> _Row:
    jobs = [
        _Job(
            platform=job.platform,
            toolchain=job.toolchain,
            shard=job.shard,
            cases=[case.id for case in job.cases],
        )
        for job in row.jobs
    ]
    seconds = round(row.seconds, 1)
    return _Row(id=row.id, platform=row.platform, labels=[*row.labels], own=row.own, seconds=seconds, jobs=jobs)


def _cases(path: Path, row: str, names: list[str], cases: dict[str, Case]) -> tuple[Case, ...]:
    for name in names:
        if name not in cases:
            raise UserError(
                f"{path}: row {row}: matrix.yaml has no case '{name}'. The plan was made from another matrix.yaml; "
                "make it anew: `kernel-matrix ci plan --write FILE`"
            )
    return tuple(cases[name] for name in names)


def _read(path: Path) -> _File:
    try:
        file = _File.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror or error}. Make the plan first: `kernel-matrix ci plan --write FILE`"
        ) from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {error}. Make the plan anew: `kernel-matrix ci plan --write FILE`") from None
    except ValidationError as error:
        raise UserError(
            f"{path}: {first_fault(error)}. Make the plan anew: `kernel-matrix ci plan --write FILE`"
        ) from None
    if file.schema_version != SCHEMA_VERSION:
        raise UserError(
            f"{path}: this is a plan of version {file.schema_version}, and {SCHEMA_VERSION} is read here. Make it anew."
        )
    return file
