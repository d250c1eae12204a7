"""Search texts of strangers by patterns, in a time that grows with the text and not with its square or worse.

Python's ``re`` goes back for each way in which a pattern may match. RE2 does not, and comes with pyarrow, which whoever
judges results has. A machine that only runs jobs may lack pyarrow: it searches its own texts, and does so with ``re``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
    return bool(_found_in(pattern, _held([text])))


def last_lines(patterns: Sequence[str], texts: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Yield each match: the index of the pattern, the index of the text, and the line in which the last part ends.

    A space of a pattern is any space, as a log may be wrapped there. ``^`` and ``$`` match at the ends of each line. To
    make RE2's program of a pattern takes longer than to search a text, so it is made once for all texts.

    Raises:
        UserError: RE2 cannot use a pattern.
    """
    held = _held(texts)
    for number, pattern in enumerate(patterns):
        spaced = pattern.replace(" ", r"\s")
        if places := _found_in(f"(?m){spaced}", held):
            of_pattern = _held([texts[place] for place in places])
            every = _asked("replace_substring_regex", rf"\A((?s:.*)(?m:{spaced}))(?s:.*)", of_pattern, r"\1")
            for place, upto in zip(places, every, strict=True):
                yield number, place, int(upto.rstrip().count(b"\n")) + 1


def _held(texts: Sequence[str]) -> Any:
    """Return texts as RE2 searches them, or as a list where there is no pyarrow."""
    encoded = [text.encode(errors="replace") for text in texts]
    if find_spec("pyarrow") is None:
        return encoded
    import pyarrow as pa  # it takes long to import

    return pa.array(encoded, pa.binary())


def _found_in(pattern: str, texts: Any) -> list[int]:
    """Return the places of the texts that have a part that the pattern matches."""
    return [index for index, has in enumerate(_asked("match_substring_regex", pattern, texts)) if has]


def _asked(question: str, pattern: str, texts: Any, *replacement: str) -> list[Any]:
    """Return what RE2 answers, or ``re`` where there is no pyarrow."""
    if isinstance(texts, list):
        made = re.compile(pattern.encode())
        if replacement:
            return [made.sub(replacement[0].encode(), text) for text in texts]
        return [made.search(text) for text in texts]
    import pyarrow as pa  # it takes long to import
    from pyarrow import compute

    try:
        answer: list[Any] = getattr(compute, question)(texts, pattern, *replacement).to_pylist()
    except pa.ArrowInvalid as error:
        raise UserError(f"the pattern {pattern!r} cannot be used: {error}") from None
    return answer
