"""The faults that pydantic finds in data, as texts for people."""

from __future__ import annotations

from pydantic import ValidationError


def first_fault(error: ValidationError) -> str:
    """Return the first fault, after the place where it is: ``rows.0.id: Field required``."""
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"{place}: {fault['msg']}"
