"""Search texts of strangers by patterns, in a time that grows with the text and not with its square or worse.

Python's ``re`` goes back for each way in which a pattern may match. RE2 does not, and comes with pyarrow, which whoever
judges results has. A machine that only runs jobs may lack pyarrow: it searches its own texts, and does so with ``re``.
"""

from __future__ import annotations

import re
from importlib.util import find_spec

from kernel_matrix.base.errors import UserError

# What needs to go back: assertions, references to groups, atomic groups and possessive repeats.
_GOES_BACK = re.compile(r"(?<!\\)\(\?(?:<?[=!]|>|P=|\()|\\[1-9]|(?<!\\)[*+?}]\+")


def fault_of(pattern: str) -> str:
    """Return why a text cannot be a pattern; an empty text if it can."""
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    if found := _GOES_BACK.search(pattern):
        return f"'{found[0]}' is nothing that RE2 has"
    return ""


def is_found(pattern: str, text: str, *, of_lines: bool = False) -> bool:
    """Return whether a text has a part that the pattern matches; ``of_lines``: ``^`` and ``$`` are those of each line.

    Raises:
        UserError: RE2 cannot use the pattern.
    """
    if find_spec("pyarrow") is None:
        return re.search(pattern, text, re.MULTILINE if of_lines else 0) is not None
    import pyarrow as pa  # it takes long to import
    from pyarrow import compute

    texts = pa.array([text.encode(errors="replace")], pa.binary())
    try:
        return bool(compute.match_substring_regex(texts, pattern=f"(?m){pattern}" if of_lines else pattern)[0].as_py())
    except pa.ArrowInvalid as error:
        raise UserError(f"the pattern {pattern!r} cannot be used: {error}") from None
