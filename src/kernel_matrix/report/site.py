"""Comparison -> files: the static page, the badge, compat.json, summary.md and the merged JUnit XML."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from kernel_matrix.base.files import write_atomically
from kernel_matrix.config.model import Matrix
from kernel_matrix.diagnosis import Rule
from kernel_matrix.report import badges, markdown
from kernel_matrix.report.document import RED_FIRST, Document, document, headline
from kernel_matrix.report.toolchains import Toolchains
from kernel_matrix.results import history, junit
from kernel_matrix.results.collect import Collected
from kernel_matrix.results.compare import STATES, Comparison
from kernel_matrix.results.difference import Difference
from kernel_matrix.results.history import History

# What a reader needs to know of each state, and the colour that it has everywhere.
MEANING = {
    "pass": ("#1a7f37", "ran or was emulated, and every number is inside its error budget"),
    "compiled": ("#2f6fde", "a compiler made machine code for this target; nothing ran it"),
    "lowered": ("#7aa5ec", "source was generated for this target; nothing here compiled it"),
    "known": ("#b7791f", "fails exactly as matrix.yaml expects, with its reason"),
    "flaky": ("#d9730d", "passed only on a repeat"),
    "fixed": ("#a626a4", "passes although matrix.yaml expects it to fail: take the expectation out"),
    "fail": ("#cf222e", "ran, and a number is outside its error budget"),
    "error": ("#8c1d18", "did not get as far as numbers; the stage says where it stopped"),
    "missing": ("#5b1a66", "planned, and no result came"),
    "unavailable": ("#8a939c", "no such hardware here, and nothing to compile without it"),
    "excluded": ("#c3c9cf", "left out by matrix.yaml, with its reason"),
}


def report(
    matrix: Matrix,
    comparison: Comparison,
    collected: Collected,
    site: Path,
    *,
    earlier: History | None = None,
    difference: Difference | None = None,
    left_out: int = 0,
    toolchains: Toolchains | None = None,
    rules: tuple[Rule, ...] | None = None,
) -> Document:
    """Write everything into ``site`` and return what compat.json holds.

    With ``earlier``, silent lanes are said; with a ``difference``, the summary is that and not the whole table.
    ``left_out`` cases were not asked for. ``toolchains`` is what probes and sweeps told.
    """
    site.mkdir(parents=True, exist_ok=True)
    whole = {
        **document(matrix, comparison, collected, rules),
        "toolchains": (toolchains or Toolchains()).model_dump(mode="json"),
    }
    whole["run"]["left_out"] = left_out
    whole["silent_days"] = matrix.ci.silent_days
    whole["silent"] = _write_lanes(matrix, comparison, whole, earlier or History(), site)
    page = (
        _environment()
        .get_template("index.html.j2")
        .render(
            document=whole, meaning=MEANING, states=STATES, data=_embeddable(_for_page(whole)), headline=headline(whole)
        )
    )
    write_atomically(site / "index.html", page)
    _write_badge(site / "badge", _badge(whole))
    cells = [{key: value for key, value in cell.items() if key != "results"} for cell in whole["cells"]]
    write_atomically(site / "compat.json", json.dumps({**whole, "cells": cells}, indent=1) + "\n")
    template = _environment().get_template("difference.md.j2" if difference else "summary.md.j2")
    write_atomically(site / "summary.md", markdown.within(template.render(document=whole, difference=difference)))
    junit.merge(collected.files, site / "junit.xml")
    return whole


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
    return environment


def _write_lanes(
    matrix: Matrix, comparison: Comparison, whole: Document, earlier: History, site: Path
) -> list[Document]:
    """A badge per lane, and the history for the next run; returns the lanes without a result."""
    now, limit = history.now(), matrix.ci.silent_days
    planned = {"/".join((e["platform"], e["target"], e["toolchain"])): badges.current(e) for e in whole["overview"]}
    carried = history.carry_on(earlier.lanes, comparison, planned, now)
    write_atomically(site / history.FILE, history.to_json(carried, now))
    folder = site / "badges"
    folder.mkdir(exist_ok=True)
    for name in planned:
        _write_badge(folder / name.replace("/", "."), badges.badge(name, carried[name], now, limit))
    return badges.silent(carried, set(planned), now, limit)


def _write_badge(path: Path, badge: dict[str, Any]) -> None:
    """As a shields endpoint and as a picture."""
    write_atomically(path.with_name(f"{path.name}.json"), json.dumps(badge) + "\n")
    text = _environment().get_template("badge.svg.j2").render(**_badge_geometry(badge))
    write_atomically(path.with_name(f"{path.name}.svg"), text)


def _for_page(whole: Document) -> dict[str, Any]:
    """The document with every long text said once: tracebacks repeat from case to case."""
    texts: dict[str, int] = {}
    cells = []
    for cell in whole["cells"]:
        results = [{**result, "detail": texts.setdefault(result["detail"], len(texts))} for result in cell["results"]]
        cells.append({**cell, "results": results})
    return {"cells": cells, "jobs": whole["jobs"], "texts": list(texts)}


def _embeddable(data: dict[str, Any]) -> str:
    """JSON that cannot close the script element that holds it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _badge(whole: Document) -> dict[str, Any]:
    """The shields endpoint: red names what is red, and green needs something that ran and no lane gone silent."""
    counts, by_evidence = whole["run"]["cells_by_state"], whole["run"]["cells_by_evidence"]
    red = [f"{counts[state]} {state}" for state in RED_FIRST if state in counts]
    known = [
        f"{by_evidence[level]} {level}"
        for level in ("ran", "emulated", "compiled", "lowered")
        if by_evidence.get(level)
    ]
    if red:
        message, color = f"{', '.join(red)} of {whole['run']['cells']} cells", "#cf222e"
    else:
        message = " · ".join(known) + f" of {whole['run']['cells']} cells" if known else "nothing known"
        color = "#1a7f37" if by_evidence.get("ran") else "#6e7781"
    if gone := sum(lane["gone"] for lane in whole["silent"]):
        message += f" · {gone} lanes silent"
        color = color if red else "#6e7781"
    return {"schemaVersion": 1, "label": "kernel matrix", "message": message, "color": color}


def _badge_geometry(badge: dict[str, Any]) -> dict[str, Any]:
    left, right = (round(6.4 * len(badge[key]) + 14) for key in ("label", "message"))
    return {**badge, "left": left, "right": right}
