"""Document and difference -> Markdown that no text of a result breaks out of; badges as pictures."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from kernel_matrix.report.badges import Badge
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Document
from kernel_matrix.report.sentences import counts, headline, noise_words, percent
from kernel_matrix.results.states import STATES

if TYPE_CHECKING:  # it takes long to import
    from jinja2 import Environment


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


_MOST_OF_A_NOTE = 500  # of a note, or of a broken result
_MOST_LINES = 50  # of a list in the summary, such as the list of broken results
_MOST_ROWS = 2_000  # of its table: more are no summary, and GitHub shows a megabyte
_BAD = ("fail", "error", "fixed", "missing", "flaky")
_MOST_BAD = 200  # the cells that it explains, the worst first


def summary(document: Document, difference: Difference | None) -> str:
    """Return the summary in Markdown: what differs from an earlier report, else the whole table."""
    template = _environment().get_template("difference.md.j2" if difference else "summary.md.j2")
    most = {"most": _MOST_LINES, "most_text": _MOST_OF_A_NOTE, "most_rows": _MOST_ROWS, "most_bad": _MOST_BAD}
    bad = sorted((cell for cell in document.cells if cell.state in _BAD), key=lambda cell: STATES.index(cell.state))
    return within(template.render(document=document, difference=difference, bad=bad, **most))


def runs(difference: Difference, before: str, now: str) -> str:
    """Return the difference of two runs in Markdown."""
    template = _environment().get_template("runs.md.j2")
    text = template.render(difference=difference, before=before, now=now, counts=counts(difference))
    return within(text.rstrip() + "\n")


def picture(badge: Badge) -> str:
    """Return a badge as SVG."""
    return _environment().get_template("badge.svg.j2").render(badge=badge)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

    environment = Environment(
        loader=PackageLoader("kernel_matrix.report"),
        autoescape=select_autoescape(("svg.j2",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"headline": headline, "cell": cell, "fenced": fenced}
    environment.filters |= {"noise_words": noise_words, "percent": percent}
    return environment
