"""The types of names that the vendors' modules decide: vendors, and programs that toolchains start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from kernel_matrix.vendors.registry import program_names, vendor_names


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
