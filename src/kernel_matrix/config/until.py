"""The end of an expectation or an exclusion: a date, or a version of a distribution that ends it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Annotated

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from kernel_matrix.base.versions import satisfies

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_EXPECTED = "Input should be a date such as 2027-11-22, or a version that ends it such as 'name>=1.2'"


def _checked(text: str) -> str:
    if last_day(text) is None and not _is_version(text):
        raise PydanticCustomError("until", _EXPECTED)
    return text


Until = Annotated[
    str,
    # YAML makes a date of an unquoted one.
    BeforeValidator(lambda value: value.isoformat() if isinstance(value, date) else value),
    AfterValidator(_checked),
    WithJsonSchema({"type": "string", "pattern": r"^(\d{4}-\d{2}-\d{2}|[A-Za-z0-9][\w.-]*\s*[<>=!~].+)$"}),
]


def last_day(until: str) -> date | None:
    """Return the last day on which the entry holds; None if a version ends it."""
    if not _DATE.fullmatch(until):
        return None
    try:
        return date.fromisoformat(until)
    except ValueError:
        return None


def over_on(until: str, today: date) -> bool:
    """Return whether the last day has passed."""
    day = last_day(until)
    return day is not None and today > day


def over_with(until: str, versions: Mapping[str, str]) -> bool:
    """Return whether the versions of an environment, by distribution, meet the version that ends the entry."""
    return last_day(until) is None and satisfies([until], versions)


def _is_version(text: str) -> bool:
    """Return whether a text is a distribution with versions and nothing else."""
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return False
    return bool(requirement.specifier) and not (requirement.marker or requirement.extras or requirement.url)
