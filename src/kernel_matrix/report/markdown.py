"""Write texts of results as Markdown that they cannot break out of, and cut a summary to the size that GitHub shows."""

from __future__ import annotations

import re

MOST_BYTES = 1024 * 1024  # of one step's summary: GitHub shows none of a larger one
_CUT = "\n\nThe rest is too long for a summary. The page in the artifact 'site' has all of it.\n"


def cell(text: object) -> str:
    """Return a text as one line for a table: nothing in it ends the cell or opens a tag, a link or a mention."""
    line = " ".join(str(text).split())
    return re.sub(r"([\\`|<>\[\]!*_~@#&])", lambda match: f"&#{ord(match.group())};", line)


def fenced(text: object) -> str:
    """Return a text as a block of code, whose fence is longer than any in the text."""
    lines = str(text).replace("\r", "\n")
    longest = max((len(run) for run in re.findall(r"`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{lines}\n{fence}"


def within(text: str, most: int = MOST_BYTES) -> str:
    """Return the text; if it is too long, cut after a whole paragraph, with a sentence that says so."""
    data = text.encode()
    if len(data) <= most:
        return text
    kept = data[: most - len(_CUT.encode())].decode(errors="ignore")
    kept = kept[: max(kept.rfind("\n\n"), kept.rfind("\n|")) + 1] or ""
    return kept.rstrip() + _CUT
