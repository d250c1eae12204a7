"""Write texts of results as Markdown that they cannot break out of, and cut a summary to the size that GitHub shows."""

from __future__ import annotations

import re

MOST_BYTES = 1024 * 1024  # of one step's summary: GitHub shows none of a larger one
_MOST_CHARACTERS = 10_000  # of a text in a table
_MOST_OF_A_FENCE = 1_000  # characters; a fence is longer than any in the text that it holds
_CUT = "\n\nThe rest is too long for a summary. The page in the artifact 'site' has all of it.\n"


def cell(text: object) -> str:
    """Return a text as one line for a table: nothing in it ends the cell or opens a tag, a link or a mention.

    A very long one is cut, and what cannot be printed is a space.
    """
    printable = "".join(character if character.isprintable() else " " for character in str(text)[:_MOST_CHARACTERS])
    line = " ".join(printable.split())
    return re.sub(r"([\\`|<>\[\]!*_~@#&])", lambda match: f"&#{ord(match.group())};", line)


def fenced(text: object) -> str:
    """Return a text as a block of code, whose fence is longer than any in the text."""
    lines = str(text).replace("\r", "\n").replace("\0", "\N{REPLACEMENT CHARACTER}")
    lines = re.sub(rf"`{{{_MOST_OF_A_FENCE},}}", "`" * (_MOST_OF_A_FENCE - 1), lines)
    longest = max((len(run) for run in re.findall(r"`+", lines)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{lines}\n{fence}"


def within(text: str, most: int = MOST_BYTES) -> str:
    """Return the text; if it is too long, cut after a whole paragraph, with a sentence that says so."""
    data = text.encode(errors="replace")
    if len(data) <= most:
        return data.decode()
    kept = data[: most - len(_CUT.encode()) - _MOST_OF_A_FENCE].decode(errors="ignore")
    kept = kept[: max(kept.rfind("\n\n"), kept.rfind("\n|")) + 1]
    return kept.rstrip() + _open_fence(kept) + _CUT


def _open_fence(text: str) -> str:
    """Return the line that ends the block of code in which a text ends; nothing where it ends in none."""
    fence = ""
    for line in re.finditer(r"^(`{3,})(.*)$", text, re.MULTILINE):
        ticks, rest = line.groups()
        if not fence:
            fence = ticks
        elif len(ticks) >= len(fence) and not rest.strip():
            fence = ""
    return f"\n{fence}" if fence else ""
