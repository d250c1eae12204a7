"""Document -> texts for people: the summary, the difference of two runs and the pictures of badges, from templates."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from kernel_matrix.report import markdown
from kernel_matrix.report.badges import Badge
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Document
from kernel_matrix.report.words import counts, headline, noise_words, percent
from kernel_matrix.results.states import STATES

_MOST_CHARACTERS = 500  # of a note, or of a broken result
_MOST_LINES = 50  # of a list in the summary, such as that of broken results
_MOST_ROWS = 2_000  # of its table: more are no summary, and GitHub shows a megabyte
_BAD = ("fail", "error", "fixed", "missing", "flaky")
_MOST_BAD = 200  # of the cells of which it says what is wrong, the worst first


def summary(document: Document, difference: Difference | None) -> str:
    """Return the summary in Markdown: what differs from an earlier report, else the whole table."""
    template = _environment().get_template("difference.md.j2" if difference else "summary.md.j2")
    most = {"most": _MOST_LINES, "most_text": _MOST_CHARACTERS, "most_rows": _MOST_ROWS, "most_bad": _MOST_BAD}
    bad = sorted((cell for cell in document.cells if cell.state in _BAD), key=lambda cell: STATES.index(cell.state))
    return markdown.within(template.render(document=document, difference=difference, bad=bad, **most))


def runs(difference: Difference, before: str, now: str) -> str:
    """Return the difference of two runs in Markdown."""
    template = _environment().get_template("runs.md.j2")
    text = template.render(difference=difference, before=before, now=now, counts=counts(difference))
    return markdown.within(text.rstrip() + "\n")


def picture(badge: Badge) -> str:
    """Return a badge as SVG."""
    return _environment().get_template("badge.svg.j2").render(badge=badge)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("kernel_matrix.report"),
        autoescape=select_autoescape(("svg.j2",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"headline": headline, "cell": markdown.cell, "fenced": markdown.fenced}
    environment.filters |= {"noise_words": noise_words, "percent": percent}
    return environment
