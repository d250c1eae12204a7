"""Names in matrix.yaml that the vendors' files decide: who makes a device, and which programs toolchains start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kernel_matrix.vendors.registry import program_names, vendor_names


@dataclass(frozen=True)
class OneOf:
    """Take a text that is one of some names, which are asked for anew each time."""

    names: Callable[[], tuple[str, ...]]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": list(self.names()), "type": "string"}

    def _check(self, name: str) -> str:
        names = self.names()
        if name not in names:
            *most, last = (f"'{each}'" for each in names)
            expected = f"{', '.join(most)} or {last}" if most else last
            raise PydanticCustomError("unknown_name", "Input should be {expected}", {"expected": expected})
        return name


VendorName = Annotated[str, OneOf(vendor_names)]
ProgramName = Annotated[str, OneOf(program_names)]
NeedName = Annotated[str, OneOf(lambda: (*program_names(), *vendor_names()))]
