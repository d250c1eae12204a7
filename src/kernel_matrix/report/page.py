"""Document -> texts for people: the page, the summary and the pictures of badges, from templates."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from kernel_matrix.report import heatmap, markdown
from kernel_matrix.report.badges import Badge
from kernel_matrix.report.difference import Difference
from kernel_matrix.report.document import Document
from kernel_matrix.report.words import MEANING, STALE, counts, headline, noise_ratio, noise_words, percent
from kernel_matrix.results.compare import STATES


def page(document: Document) -> str:
    """Return the page: one file that needs no network."""
    template = _environment().get_template("index.html.j2")
    return template.render(
        document=document,
        meaning=MEANING,
        stale=STALE,
        states=STATES,
        data=_embeddable(_data(document)),
        headline=headline(document),
        heat_maps=heatmap.heat_maps(document.cells),
        noise_scale=heatmap.scale(),
        noise_unknown=heatmap.lanes_without(document.cells),
    )


def summary(document: Document, difference: Difference | None) -> str:
    """Return the summary in Markdown: what differs from an earlier report, else the whole table."""
    template = _environment().get_template("difference.md.j2" if difference else "summary.md.j2")
    return markdown.within(template.render(document=document, difference=difference))


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
        autoescape=select_autoescape(("html.j2", "svg.j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"headline": headline, "cell": markdown.cell, "fenced": markdown.fenced}
    environment.filters |= {"noise_ratio": noise_ratio, "noise_words": noise_words, "percent": percent}
    return environment


def _data(document: Document) -> dict[str, Any]:
    """Return the data for the page's script. Every long text is in it once, because tracebacks repeat."""
    texts: dict[str, int] = {}
    cells = []
    for cell in document.cells:
        results = [result.model_dump(mode="json") for result in cell.results]
        for result in results:
            result["detail"] = texts.setdefault(result["detail"], len(texts))
        cells.append({**cell.model_dump(mode="json"), "results": results})
    return {"baseline": document.run.baseline, "cells": cells, "jobs": document.jobs, "texts": list(texts)}


def _embeddable(data: dict[str, Any]) -> str:
    """Return JSON that cannot close the script element that holds it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
