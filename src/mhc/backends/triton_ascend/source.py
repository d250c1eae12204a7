"""One device function for Ascend NPUs, as the compiler is given it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Source(NamedTuple):
    """A device function, the types of its arguments in order, and constants; those that it does not have are left out.

    ``programs`` names what each axis of its grid counts: tokens, or parts of so many of them or of the columns.
    """

    function: Any
    types: tuple[str, ...]
    constants: dict[str, Any]
    programs: tuple[str, ...] = ("tokens",)
