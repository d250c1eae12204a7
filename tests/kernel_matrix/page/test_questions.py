"""The questions of a newcomer are answered from the first page, each with one search or at most two clicks."""

from __future__ import annotations

from browsing import BROKEN, CPU, DIFFERING, ERROR, FAILING, PASSING
from shown import Page


def test_does_an_operator_work_on_a_vendor(tab):
    """One search."""
    page = tab.open()
    page.fill("#search", "sinkhorn vendor:cpu")
    tab.until("[...document.querySelectorAll('[data-cell]')].every(s => s.dataset.cell.includes('sinkhorn'))")
    squares = page.eval_on_selector_all("[data-cell]", "all => all.map(s => [s.dataset.cell, s.innerText])")
    states = dict(squares)
    assert "pass" in states["cpu-llvm/x86-64-v3/reference/sinkhorn.forward"]
    assert "error" in states[BROKEN]
    page.fill("#search", "sinkhorn vendor:amd")
    tab.until("[...document.querySelectorAll('[data-cell]')].every(s => s.dataset.cell.includes('rocm'))")
    assert "unavailable" in page.inner_text("[data-cell] >> nth=0")


def test_how_exact_is_it_and_compared_with_whom(tab):
    """One click."""
    tab.open()
    tab.press_square(PASSING)
    text = tab.page.inner_text("[data-test=exact]")
    assert "compared with eager PyTorch" in text
    assert "0.50 ×" in text
    assert "ULP" in text


def test_how_fast_is_it(tab):
    """One click."""
    page = tab.open()
    page.click("nav [data-view=speed]")
    page.wait_for_selector("[data-test=speed] table")
    text = page.inner_text("[data-test=speed]")
    assert "eager PyTorch" in text
    assert "2.00 ×" in text


def test_since_when_does_it_not_work_and_why(tab):
    """One search and one click; or one click on the history."""
    page = tab.open()
    page.fill("#search", "state:error")
    tab.until("document.querySelectorAll('[data-cell]').length === 1")
    tab.press_square(BROKEN)
    text = page.inner_text("dialog#cell")
    assert ERROR in text
    assert "Cause" in text
    page.keyboard.press("Escape")
    page.click("nav [data-view=history]")
    page.wait_for_selector("[data-test=history] table")
    text = page.inner_text("[data-test=history]")
    assert "pass" in text
    assert ERROR in text


def test_how_is_it_repeated(tab):
    """Two clicks."""
    tab.open()
    tab.press_square(FAILING)
    tab.page.click("[data-test=copy] >> nth=0")
    tab.until("document.querySelector('.copied').innerText !== ''")
    assert f"--case {FAILING}" in tab.page.evaluate("navigator.clipboard.readText()")


def test_does_it_give_the_same_bits_each_time(tab, page_site):
    """One search; or two clicks."""
    page = tab.open()
    page.fill("#search", "determinism:differs")
    tab.until("document.querySelectorAll('[data-cell]').length === 1")
    tab.press_square(DIFFERING)
    runs = Page(page_site).cells[DIFFERING]["determinism"]
    assert runs["repeats"] == 3 * runs["differing"] > 0
    said = f"other bits in {runs['differing']} of {runs['repeats']} repeats"
    assert page.inner_text("dialog#cell [data-test=differs]") == said
    page.keyboard.press("Escape")
    page.fill("#search", "")
    page.click("nav [data-view=machines]")
    page.wait_for_selector("[data-test=machines] table")
    lanes = page.eval_on_selector_all(
        "table[data-test=lanes] tr",
        "all => all.map(row => [row.querySelector('th').innerText, row.innerText])",
    )
    assert [name for name, text in lanes if "other bits in" in text] == [DIFFERING.rpartition("/")[0]]
    assert any("same bits in" in text for name, text in lanes if name == f"{CPU}/reference")
    page.click("table[data-test=lanes] a.odd")
    tab.until("document.querySelectorAll('[data-cell]').length === 1")
    assert page.get_attribute("[data-cell]", "data-cell") == DIFFERING


def test_a_cell_says_that_its_kernel_gave_the_same_bits(tab, page_site):
    """One click."""
    tab.open()
    tab.press_square(PASSING)
    repeats = Page(page_site).cells[PASSING]["determinism"]["repeats"]
    assert f"the same bits in {repeats} repeats" in tab.page.inner_text("dialog#cell")
