"""The file of a row plan (``--plan FILE``): written once by ``plan``, read by every machine and by ``report``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kernel_matrix.base.errors import UserError, first_fault
from kernel_matrix.config.model import Tier
from kernel_matrix.config.plan import Case, Job, Plan
from kernel_matrix.config.suite import ids_by_lane, with_new_tests
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row

SCHEMA_VERSION = 1
_CaseId = Annotated[str, BeforeValidator(lambda case: case.id if isinstance(case, Case) else case)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, from_attributes=True)


class _Job(_Model):
    platform: str
    toolchain: str
    shard: str
    cases: tuple[_CaseId, ...]


class _Row(_Model):
    id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=200)
    platform: str
    labels: tuple[str, ...]
    own: bool
    seconds: Annotated[float, AfterValidator(lambda seconds: round(seconds, 1))]
    jobs: tuple[_Job, ...]


class _File(_Model):
    schema_version: int
    event: str
    tier: Tier
    excluded: bool
    left_out: int
    reasons: dict[str, str]
    rows: tuple[_Row, ...]
    notes: tuple[str, ...] = ()


def to_json(row_plan: RowPlan) -> str:
    """Return the text of the file."""
    of_plan = {name: getattr(row_plan, name) for name in _File.model_fields if name != "schema_version"}
    return _File(schema_version=SCHEMA_VERSION, **of_plan).model_dump_json(indent=1) + "\n"


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
    cases, by_lane = {case.id: case for case in planned.cases}, ids_by_lane(planned.cases)
    rows = []
    for row in file.rows:
        jobs = tuple(
            Job(
                job.platform,
                job.toolchain,
                _cases(path, row.id, with_new_tests(job.cases, by_lane), cases),
                job.shard,
            )
            for job in row.jobs
        )
        rows.append(Row(row.id, row.platform, row.labels, row.own, jobs, row.seconds))
    return RowPlan(file.event, file.tier, tuple(rows), file.excluded, file.left_out, file.reasons, file.notes)


def _cases(path: Path, row: str, names: Iterable[str], cases: dict[str, Case]) -> tuple[Case, ...]:
    for name in names:
        if name not in cases:
            raise UserError(
                f"{path}: row {row}: matrix.yaml has no case '{name}'. The plan was made from another matrix.yaml; "
                "make it anew: `kernel-matrix ci plan --write FILE`"
            )
    return tuple(cases[name] for name in names)


def _read(path: Path) -> _File:
    remedy = "Make the plan anew: `kernel-matrix ci plan --write FILE`"
    try:
        file = _File.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        first = remedy.replace("anew", "first")
        raise UserError(f"{path}: {error.strerror or error}. {first}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: {error}. {remedy}") from None
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}. {remedy}") from None
    if file.schema_version != SCHEMA_VERSION:
        raise UserError(
            f"{path}: this is a plan of version {file.schema_version}, and {SCHEMA_VERSION} is read here. Make it anew."
        )
    return file
