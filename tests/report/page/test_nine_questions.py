"""Nine questions of a newcomer, each answered on the first view, or by one search or one click; wide, narrow, dark."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from browsing import CPU, DIFFERING, ERROR
from shown import Page
from test_access import TAGS, engine, found_by_engine

WIDTHS = {1280: 900, 390: 844}


BY_DAY = [(1280, "light"), (390, "dark")]
AT_NIGHT = [pytest.param(each, marks=pytest.mark.nightly) for each in [(1280, "dark"), (390, "light")]]


@pytest.fixture(params=[*BY_DAY, *AT_NIGHT], ids=str)
def ask(request, new_tab, web) -> Callable[[str, str], str]:
    """Return a function that opens the first view, searches or clicks, and returns the text of what answers.

    The answer is seen without scrolling sideways, and an accessibility engine finds nothing in the page.
    """
    width, scheme = request.param
    address = web.replace("127.0.0.1", "localhost")  # where no page looks for newer data
    tab = new_tab(address, viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme)

    def answer(place: str, *, search: str = "", click: str = "", square: str = "") -> str:
        page = tab.open()
        if search:
            page.fill("#search", search)
            tab.until("location.hash.includes('q=')")
        if click:
            page.click(click)
        if square:
            tab.press_square(square)
        page.wait_for_selector(place)
        tab.settled()
        box = page.query_selector(place).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + min(box["width"], 1) <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.evaluate(engine())
        rules = ("tag", TAGS) if scheme == "light" else ("rule", ("color-contrast", "link-in-text-block"))
        assert found_by_engine(page, *rules) == []
        return page.inner_text(place)

    return answer


def test_does_it_run_on_nvidia_and_what_do_the_counts_mean(ask):
    """No click."""
    assert "compiled for 10 targets, not run" in ask("tr[data-row=nvidia] th")
    assert "9 of 47 cells pass" in ask(".controls")


def test_does_it_run_on_the_device_that_i_have(ask):
    """One search: the vendor's line, and what it needs."""
    said = ask("[data-test=said]", search="sinkhorn MI300")
    assert said.startswith("AMD ROCm: ")
    assert "this is needed: AMD's GPU for gfx942, also called MI300" in said


def test_how_exact_is_it(ask):
    """No click for all of it; one for a cell."""
    assert "inside the error budget" in ask("[data-answer=exact]")


def test_how_fast_is_it(ask):
    """One click."""
    assert "2.00 ×" in ask("[data-test=speed]", click="nav [data-view=speed]")


def test_since_when_is_it_so(ask):
    """One search: what changed in the cells that it finds, with the commits."""
    said = ask("[data-asked=changed]", search="since when inductor sinkhorn")
    assert ERROR in said
    assert "PASS" in said.upper()


def test_why_does_it_not_run_there(ask):
    """One search."""
    said = ask("[data-asked=why]", search="why not ascend")
    assert "To compile it, hivmc is needed: install Huawei's CANN toolkit, which no package index has" in said


@pytest.mark.parametrize("words", ["which triton do I pin?", "triton version"])
def test_which_version_do_i_pin(ask, words):
    """One search: of each architecture this matrix's own version, which is good here; else the best that was swept."""
    said = ask("[data-asked=pin]", search=words)
    rows = {line.split("\t")[0]: line.split("\t")[1:] for line in said.splitlines() if line.startswith("3.")}
    assert list(rows) == ["3.10.0", "3.9.0", "3.8.0", "3.7.0"]
    assert re.fullmatch(r"✓ 1 of 1; here ✓ (\d+) of \1 cells use this", rows["3.7.0"][0])
    assert rows["3.7.0"][1] == "✓ 1 of 1"  # no device was there: nothing is known here
    assert rows["3.9.0"] == ["✗ 0 of 1", "✓ 1 of 1 use this"]
    assert said.count("use this") == 2


def test_is_a_lane_dead(ask, page_site):
    """No click: a lane that never ran is silent."""
    overview = Page(page_site).overview
    said = ask("[data-answer=silent]")
    assert f"{len(overview['silent'])} of {len(overview['lanes'])} lanes" in said
    assert "Nobody" not in said


def test_what_got_worse(ask):
    """No click; the words of the question find it too."""
    assert "worse" in ask("[data-answer=changed]")
    assert ERROR in ask("[data-asked=changed]", search="what got worse this week")


@pytest.mark.parametrize("width", WIDTHS)
def test_no_vendor_is_behind_an_edge(new_tab, web, page_site, width):
    """Every vendor of the first view lies in the page itself: no box inside it scrolls."""
    page = new_tab(web, viewport={"width": width, "height": WIDTHS[width]}).open()
    vendors = {one["vendor"] for one in Page(page_site).overview["platforms"]}
    rows = page.eval_on_selector_all(
        "tr[data-row]", "all => all.map(row => [row.dataset.row, row.getBoundingClientRect().bottom])"
    )
    box = page.query_selector(".grid-box").bounding_box()
    assert {name for name, bottom in rows if bottom <= box["y"] + box["height"]} == vendors
    assert page.evaluate("document.querySelector('.grid-box').scrollHeight - 2") <= box["height"]
    controls = page.query_selector(".controls").bounding_box()
    assert (controls["y"] > box["y"]) == (width == 390), "on a phone the first rows come before the buttons"
    views = page.eval_on_selector_all("nav a", "all => all.map(link => link.getBoundingClientRect().right)")
    assert max(views) <= width


@pytest.mark.parametrize(
    ("words", "vendor"), [("AMD", "rocm"), ("sinkhorn amd", "rocm"), ("amd gpus", "rocm"), ("nvidia", "cuda"),
                          ("moore threads", "musa"), ("huawei", "ascend"), ("Intel", "intel")])  # fmt: skip
def test_the_name_of_a_vendor_finds_the_vendor(tab, words, vendor):
    """A CPU whose device has that vendor's name is none of its GPUs."""
    page = tab.open(f"#grid?fold=none&q={words.replace(' ', '+')}")
    cells = page.eval_on_selector_all("[data-cell]", "all => all.map(s => s.dataset.cell)")
    assert {cell.split("/")[0] for cell in cells} == {vendor}


def test_rows_open_with_what_is_known_best(tab):
    page = tab.open("#grid?q=vendor:cpu+op:sinkhorn+direction:forward")
    states = page.eval_on_selector_all("[data-cell]", "all => all.map(square => square.dataset.state)")
    assert len(set(states)) > 1
    order = ["pass", "held", "flaky", "known", "unavailable", "excluded", "error", "fail", "missing"]
    assert states == sorted(states, key=order.index)


def test_a_link_compares_a_toolchain_with_another(tab, new_tab, web):
    page = tab.open("#compare")
    page.select_option("[data-test=mine]", "reference")
    page.select_option("[data-test=rival]", "inductor")
    tab.until("location.hash.includes('rival=inductor')")
    said = page.inner_text("[data-test=compare]")
    assert "reference against inductor" in said
    other = new_tab(web).open(page.get_attribute("[data-test=permalink]", "href"))
    assert other.inner_text("[data-test=compare]") == said
    rows = [row.inner_text().split("\t") for row in other.query_selector_all("[data-test=compared] tbody tr")]
    (sinkhorn,) = [row for row in rows if row[:2] == ["sinkhorn forward", "x86-64-v3"]]
    assert "pass" in sinkhorn[2]
    assert "error" in sinkhorn[5]
    bench = tab.open("#compare?mine=triton-3.7&rival=tilelang-0.1.15").inner_text("[data-test=bench]")
    assert "5.63 ×" in bench, "the compiled baseline is a rival too"
    assert "tilelang" not in bench


@pytest.mark.parametrize("width", WIDTHS)
def test_gaps_between_vendors_and_each_share(new_tab, web, width):
    """No vendor is behind an edge, on a phone too."""
    tab = new_tab(web.replace("127.0.0.1", "localhost"), viewport={"width": width, "height": WIDTHS[width]})
    page = tab.open("#gaps")
    assert "operators work on one vendor and not on another" in page.inner_text("[data-test=gaps]")
    kinds = dict(
        page.eval_on_selector_all(
            "[data-gap^='sinkhorn.forward/']", "all => all.map(a => [a.dataset.gap, a.dataset.kind])"
        )
    )
    found = {vendor.partition("/")[2]: kind for vendor, kind in kinds.items()}
    assert {"cpu": "works", "nvidia": "compiled, not run", "amd": "missing"}.items() <= found.items()
    rights = page.eval_on_selector_all("[data-gap]", "all => all.map(a => a.getBoundingClientRect().right)")
    assert max(rights) <= width
    share = page.inner_text("[data-test=share]")
    assert re.search(r"^CPU\t(\d+) of \1\t100 %$", share, re.MULTILINE)
    assert re.search(r"^AMD ROCm\t0 of \d+\t0 %$", share, re.MULTILINE)
    page.click('[data-gap="sinkhorn.forward/nvidia"]')
    tab.until("document.querySelectorAll('[data-cell]').length > 0")
    assert page.input_value("#search") == "vendor:nvidia op:sinkhorn direction:forward"


def test_a_cell_leads_to_what_it_said_and_to_its_version(tab):
    """One click from the cell."""
    tab.open()
    tab.press_square(f"{CPU}/inductor/sinkhorn.forward")
    page = tab.page
    assert "What it said" in page.inner_text("[data-test=log]")
    page.click("[data-test=log] a")
    page.wait_for_selector("details[data-case][open]")
    tab.open(f"#{DIFFERING}")
    page.wait_for_selector("dialog [data-test=pin]")
    assert "versions of tvm" in page.inner_text("dialog [data-test=pin]")
