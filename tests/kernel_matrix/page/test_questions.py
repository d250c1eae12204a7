"""The questions of a newcomer are answered from the first page, each with one search or at most two clicks."""

from __future__ import annotations

from browsing import BROKEN, ERROR, FAILING, PASSING


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
