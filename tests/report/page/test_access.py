"""An accessibility engine finds nothing that is serious or moderate in any view, in light and in dark."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

import pytest
from browsing import FAILING, VIEWS

# What an engine finds by itself in WCAG 2.2 A and AA, and what it calls best practice.
TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
PLACES = (*VIEWS, f"grid?cell={FAILING}", "grid?q=state:fail", "accuracy?q=platform:cpu-llvm toolchain:inductor")
# Its rows are alike, and the engine looks at each: by day at the rows of one toolchain.
AT_NIGHT = ("accuracy",)


@functools.cache
def engine() -> str:
    """Return the script of axe-core."""
    import axe_playwright_python

    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


def found_by_engine(page, kind: str, values: Sequence[str]) -> list[str]:
    """Return what the engine finds by rules of these tags, or by these rules."""
    options = {"runOnly": {"type": kind, "values": values}, "resultTypes": ["violations"]}
    violations = page.evaluate("options => axe.run(document, options).then(found => found.violations)", options)
    return [
        f"{found['impact']}: {found['id']}: {found['help']}: {[node['html'][:200] for node in found['nodes'][:3]]}"
        for found in violations
        if found["impact"] in ("critical", "serious", "moderate")
    ]


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=[pytest.mark.nightly] if place in AT_NIGHT else []) for place in PLACES]
)
def test_the_engine_finds_nothing_serious_or_moderate(new_tab, web, place):
    """In dark only the colours are others, and two rules are about these."""
    page = new_tab(web, color_scheme="light").open(f"#{place}")
    page.evaluate(engine())
    assert found_by_engine(page, "tag", TAGS) == []
    page.emulate_media(color_scheme="dark")
    assert found_by_engine(page, "rule", ["color-contrast", "link-in-text-block"]) == []


def test_the_engine_finds_what_is_wrong(new_tab, web):
    """An engine that found nothing anywhere would make the test above pass."""
    page = new_tab(web).open()
    wrong = '<img src="data:,"><button></button>'
    page.evaluate("wrong => document.querySelector('#view').insertAdjacentHTML('afterbegin', wrong)", wrong)
    page.evaluate(engine())
    violations = page.evaluate("axe.run(document).then(found => found.violations.map(one => one.id))")
    assert {"image-alt", "button-name"} <= set(violations)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colour_scheme_is_followed(new_tab, web, scheme):
    page = new_tab(web, color_scheme=scheme).open()
    red, green, blue = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    )
    assert (red + green + blue < 200) == (scheme == "dark")


def test_states_differ_without_colour(new_tab, web):
    """Each state has its own sign and its word, so that it is read in grey and by people who see fewer colours."""
    page = new_tab(web).open()
    words = page.eval_on_selector_all("[data-legend]", "all => all.map(s => s.innerText.trim().split(/\\s+/))")
    signs = [(one, other) for one, other, *_ in words]
    assert len(signs) > 6
    assert len({sign for sign, _ in signs}) == len({word for _, word in signs}) == len(signs)
