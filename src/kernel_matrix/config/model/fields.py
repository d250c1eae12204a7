"""The names, values and conditions that the sections of matrix.yaml have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, StringConstraints
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kernel_matrix.vendors.registry import program_names, vendor_names

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
    for key, values in where.items():  # noqa: SIM110 (all() takes twice the time, and this is asked of every case)
        if key not in axes or axes[key] not in as_list(values):
            return False
    return True


class Section(BaseModel):
    """A section of matrix.yaml: an unknown key is an error, and nothing changes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False, allow_inf_nan=False, defer_build=True)


@dataclass(frozen=True)
class OneOf:
    """A constraint of pydantic: a text is one of ``names()``, which is called for each check."""

    names: Callable[[], tuple[str, ...]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": list(self.names()), "type": "string"}

    def _check(self, name: str) -> str:
        names = self.names()
        if name not in names:
            *others, last = (f"'{known}'" for known in names)
            expected = f"{', '.join(others)} or {last}" if others else last
            raise PydanticCustomError("unknown_name", "Input should be {expected}", {"expected": expected})
        return name


VendorName = Annotated[str, OneOf(vendor_names)]
ProgramName = Annotated[str, OneOf(program_names)]
NeedName = Annotated[str, OneOf(lambda: (*program_names(), *vendor_names()))]
