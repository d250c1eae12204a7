"""The job summary: Markdown that no result can break out of, within the size that GitHub shows."""

from __future__ import annotations

import re

MOST_BYTES = 1024 * 1024  # of one step's summary: GitHub shows none of a larger one
_CUT = "\n\nThe rest is too long for a summary. The page in the artifact 'site' has all of it.\n"


def cell(text: object) -> str:
    """One line for a table: nothing that ends the cell, opens a tag, a link or a mention."""
    line = " ".join(str(text).split())
    return re.sub(r"([\\`|<>\[\]!*_~@#&])", lambda found: f"&#{ord(found.group())};", line)


def fenced(text: object) -> str:
    """A block of code whose fence is longer than any in the text."""
    lines = str(text).replace("\r", "\n")
    longest = max((len(run) for run in re.findall(r"`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{lines}\n{fence}"


def within(text: str, most: int = MOST_BYTES) -> str:
    """The text, cut after a whole paragraph if it is too long, with a sentence that says so."""
    data = text.encode()
    if len(data) <= most:
        return text
    kept = data[: most - len(_CUT.encode())].decode(errors="ignore")
    kept = kept[: max(kept.rfind("\n\n"), kept.rfind("\n|")) + 1] or ""
    return kept.rstrip() + _CUT
