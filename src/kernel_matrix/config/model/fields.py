"""The names, values and conditions that the sections of matrix.yaml have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, StringConstraints

Scalar = bool | int | float | str
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
OutputName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Target = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$")]
Driver = Annotated[str, StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*$")]
Tier = Literal["quick", "full"]
Direction = Name

ASSERTED = "tests"  # the direction of the tests of a suite that asserts by itself

ScalarOrList = Scalar | list[Scalar]


def as_list(value: ScalarOrList) -> list[Scalar]:
    """Return a list as it is, and one value as a list of one."""
    return value if isinstance(value, list) else [value]


def has_values(axes: Mapping[str, Scalar], where: Mapping[str, ScalarOrList]) -> bool:
    """Return whether every key of ``where`` is an axis that has one of the values named there."""
    return all(key in axes and axes[key] in as_list(values) for key, values in where.items())


class Section(BaseModel):
    """A section of matrix.yaml: an unknown key is an error, and nothing changes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)
