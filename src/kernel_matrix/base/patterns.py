"""Search texts of strangers by patterns, in a time that grows with the text and not with its square or worse.

Python's ``re`` goes back for each way in which a pattern may match. RE2 does not, and comes with pyarrow, which whoever
judges results has. A machine that only runs jobs may lack pyarrow: it searches its own texts, and does so with ``re``.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

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


def is_found(pattern: str, text: str) -> bool:
    """Return whether a text has a part that the pattern matches.

    Raises:
        UserError: RE2 cannot use the pattern.
    """
    if find_spec("pyarrow") is None:
        return re.search(pattern, text) is not None
    return bool(_asked("match_substring_regex", pattern, text))


def last_line(pattern: str, text: str) -> int:
    """Return the number of the line in which the last part ends that the pattern matches; 0 if there is none.

    A space of the pattern is any space, as a log may be wrapped there. ``^`` and ``$`` are those of each line.

    Raises:
        UserError: RE2 cannot use the pattern.
    """
    spaced = pattern.replace(" ", r"\s")
    if not is_found(f"(?m){spaced}", text):
        return 0
    upto = rf"\A((?s:.*)(?m:{spaced}))(?s:.*)"
    if find_spec("pyarrow") is None:
        found = re.match(upto, text)
        return found[1].rstrip().count("\n") + 1 if found else 0
    return int(_asked("replace_substring_regex", upto, text, replacement=r"\1").rstrip().count(b"\n")) + 1


def _asked(question: str, pattern: str, text: str, **more: str) -> Any:
    """Return what RE2 answers."""
    import pyarrow as pa  # it takes long to import
    from pyarrow import compute

    texts = pa.array([text.encode(errors="replace")], pa.binary())
    try:
        return getattr(compute, question)(texts, pattern=pattern, **more)[0].as_py()
    except pa.ArrowInvalid as error:
        raise UserError(f"the pattern {pattern!r} cannot be used: {error}") from None
