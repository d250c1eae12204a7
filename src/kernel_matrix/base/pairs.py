"""Options of the form NAME=VALUE, which may come several times."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kernel_matrix.base.errors import UserError

_NAME = re.compile(r"[\w.\-\[\]]+")


def pairs(option: str, texts: Iterable[str], form: str) -> dict[str, str]:
    """Return the values of an option by name.

    Args:
        option: the option, such as ``--pin``.
        texts: what was given.
        form: how it is written, such as ``NAME=VERSION``.

    Raises:
        UserError: a text has another form, or a name has two values.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not _NAME.fullmatch(name) or not value or value.startswith("="):
            raise UserError(f"{option} {text}: write {form}.")
        if found.setdefault(name, value) != value:
            raise UserError(f"{option} {text}: '{name}' has another value already, {found[name]}. Write it once.")
    return found
