"""The page in a browser: every view, links, the keyboard, copying, and nothing that goes wrong."""

from __future__ import annotations

import shutil

import pytest
from browsing import BROKEN, FAILING, PASSING, VIEWS, WATCHED
from shown import Page


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_opens_from_a_file_and_from_a_server(new_tab, address, view):
    tab = new_tab(address)
    page = tab.open(f"#{view}")
    assert page.get_attribute("nav a[aria-current=page]", "data-view") == view
    assert len(page.inner_text("#view")) > 100
    assert page.inner_text("h1").startswith("mhc")


def test_the_first_page_says_how_much_is_known_and_the_states_add_up(tab, page_site):
    page = tab.open()
    run = Page(page_site).overview["run"]
    assert Page(page_site).overview["headline"] in page.inner_text("header")
    totals = page.inner_text("[data-test=totals]").replace(",", "")
    assert f"{run['cells']} of {run['cells']} cells" in totals
    assert f"{run['cases']} of {run['cases']} cases" in page.inner_text("[data-test=totals]").replace(",", "")
    legend = {
        state: int(page.inner_text(f"[data-legend={state}]").replace(",", "").partition(" of ")[0].split()[-1])
        for state in run["cases_by_state"]
    }
    assert legend == run["cases_by_state"]
    assert "broken.xml: not whole JUnit XML" in page.inner_text("#page")


def test_every_cell_of_a_platform_has_a_square_with_its_state_in_words(tab, page_site):
    page = tab.open("#grid?fold=none&q=platform:cpu-llvm")
    rows = {name: row["state"] for name, row in Page(page_site).rows.items() if name.startswith("cpu-llvm/")}
    squares = page.eval_on_selector_all("[data-cell]", "all => all.map(s => [s.dataset.cell, s.innerText])")
    assert len(squares) == len(rows)
    for name, text in squares:
        assert rows[name] in text or (rows[name] == "error" and "compile" in text), (name, text)


def test_a_search_filters_and_its_link_opens_the_same_view(new_tab, address):
    tab = new_tab(address)
    page = tab.open()
    page.fill("#search", "toolchain:inductor state:fail")
    tab.until("document.querySelectorAll('[data-cell]').length === 1")
    assert page.get_attribute("[data-cell]", "data-cell") == FAILING
    tab.until("location.hash.includes('q=')")
    other = new_tab(address)
    other.page.goto(page.url)
    other.page.wait_for_selector("[data-cell]")
    assert other.page.input_value("#search") == "toolchain:inductor state:fail"
    assert other.page.inner_text("[data-test=totals]") == page.inner_text("[data-test=totals]")
    assert other.page.eval_on_selector_all("[data-cell]", "all => all.length") == 1


def test_a_search_that_is_wrong_says_what_is_wrong(tab):
    page = tab.open()
    page.fill("#search", "sttae:fail")
    tab.until("document.querySelector('#search-problems').innerText !== ''")
    assert "state" in page.inner_text("#search-problems")


def test_a_cell_opens_with_its_cases_and_the_link_of_a_case_opens_that_case(new_tab, address, page_site):
    tab = new_tab(address)
    tab.open()
    tab.press_square(FAILING)
    page = tab.page
    assert "h_in: max_abs 0.5 is over 1e-06" in page.inner_text("dialog#cell")
    names = list(Page(page_site).cells[FAILING]["results"])
    shown = page.eval_on_selector_all("[data-test=cases] [data-case]", "all => all.map(s => s.dataset.case)")
    assert sorted(shown) == sorted(names)
    other = new_tab(address)
    other.open(f"#grid?cell={FAILING}&case={names[0]}")
    other.page.wait_for_selector(f'[data-case="{names[0]}"][open]')
    assert "0.5" in other.page.inner_text(f'[data-case="{names[0]}"]')


def test_an_open_cell_says_how_many_checks_of_the_kit_it_had(tab):
    page = tab.open(f"#{PASSING}")
    page.wait_for_selector(f'[data-open-cell="{PASSING}"]')
    assert page.inner_text("[data-test=watched]") == f"Watched: {WATCHED}"
    compared = page.inner_text("[data-test=comparisons]")
    assert "Its comparisons see 1 of 2 known faults" in compared
    assert "tests/test_a.py:44 (np.allclose) sees 1 of 2; it lets through one more rounding, to TF32." in compared
    assert "One element may be off by 0.01; four times the noise here is 0.0000012." in compared
    assert (
        "tests/test_a.py:50 (np.allclose) sees 1 of 1. It allows anything: one element may be any number." in compared
    )
    assert "tests/test_a.py:60 (np.allclose) sees 1 of 1. One element may be off by 3." in compared
    page = tab.open(f"#{BROKEN}")
    page.wait_for_selector(f'[data-open-cell="{BROKEN}"]')
    assert page.locator("[data-test=watched], [data-test=comparisons]").count() == 0


def test_a_plain_link_to_a_cell_opens_it(tab):
    page = tab.open(f"#{BROKEN}")
    page.wait_for_selector(f'[data-open-cell="{BROKEN}"]')
    assert "PassManager::run failed" in page.inner_text("dialog#cell")


def test_the_back_button_goes_to_the_view_before(tab):
    page = tab.open()
    page.click("nav [data-view=speed]")
    page.wait_for_selector("nav [data-view=speed][aria-current=page]")
    page.go_back()
    page.wait_for_selector("nav [data-view=grid][aria-current=page]")


def test_everything_can_be_done_from_the_keyboard(tab):
    page = tab.open()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("toolchain:inductor state:error")
    tab.until("document.querySelectorAll('[data-cell]').length > 0 && location.hash.includes('error')")
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('[role=grid]') !== null"):
            break
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    cell = page.evaluate("document.activeElement.dataset.cell")
    assert cell == BROKEN
    page.keyboard.press("Enter")
    page.wait_for_selector(f'[data-open-cell="{cell}"]')
    assert page.evaluate("document.activeElement.closest('dialog') !== null")
    page.keyboard.press("Escape")
    tab.until("!document.querySelector('dialog#cell').open")
    assert page.evaluate("document.activeElement.dataset.cell") == cell, "the focus is where it was"


def test_the_command_is_copied_with_one_click(new_tab, address, page_site):
    tab = new_tab(address)
    tab.open()
    tab.press_square(PASSING)
    tab.page.click("[data-test=copy] >> nth=0")
    tab.until("document.querySelector('.copied').innerText !== ''")
    copied = tab.page.evaluate("navigator.clipboard.readText()")
    assert copied == Page(page_site).cells[PASSING]["repeat"]
    assert copied.endswith(f"--case {PASSING}")


def test_groups_fold_and_the_link_keeps_them_so(new_tab, web):
    tab = new_tab(web)
    page = tab.open()
    before = int(page.get_attribute("[role=grid]", "aria-rowcount"))
    page.click("[data-fold=nvidia]")
    tab.until("location.hash.includes('fold=')")
    assert page.get_attribute("[data-fold=nvidia]", "aria-expanded") == "true"
    other = new_tab(web)
    other.page.goto(page.url)
    other.page.wait_for_selector("[data-fold=nvidia][aria-expanded=true]")
    assert int(other.page.get_attribute("[role=grid]", "aria-rowcount")) > before


@pytest.mark.parametrize("link", ["#grid?fold=none", "#grid?fold=all,cpu-llvm", "#grid?q=platform:cpu-llvm"])
def test_a_link_to_unfolded_squares_shows_them(tab, link):
    assert tab.open(link).is_visible(f'[data-cell="{PASSING}"]')


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_first_view_has_every_vendor_and_operator_without_scrolling_sideways(
    new_tab, web, page_site, width, height
):
    tab = new_tab(web, viewport={"width": width, "height": height})
    page = tab.open()
    overview = Page(page_site).overview
    heads = page.eval_on_selector_all(
        "table.squares thead th:not(.corner)", "all => all.map(head => head.getBoundingClientRect().right)"
    )
    assert len(heads) == len(overview["ops"])
    assert max(heads) <= width
    assert page.evaluate("(box => box.scrollWidth <= box.clientWidth)(document.querySelector('.grid-box'))")
    rows = page.eval_on_selector_all("tr[data-row]", "all => all.map(row => row.dataset.row)")
    assert rows == list(dict.fromkeys(platform["vendor"] for platform in overview["platforms"]))


@pytest.mark.parametrize("view", [*VIEWS, f"grid?cell={FAILING}"])
def test_on_a_narrow_screen_the_page_does_not_scroll_sideways(new_tab, web, view):
    tab = new_tab(web, viewport={"width": 360, "height": 740})
    page = tab.open(f"#{view}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("document.body.scrollWidth") <= 360


def test_a_printed_page_shows_the_squares_and_no_controls(tab):
    page = tab.open("#grid?q=platform:cpu-llvm")
    page.emulate_media(media="print")
    assert page.is_visible(f'[data-cell="{PASSING}"]')
    assert not page.is_visible("#search")
    assert not page.is_visible("[data-test=fold-all]")
    width = page.evaluate("document.querySelector('table.squares').getBoundingClientRect().width")
    page.pdf()
    assert width > 0


def test_the_site_works_from_another_folder_as_from_a_zip(new_tab, page_site, tmp_path):
    folder = tmp_path / "a folder with spaces & ünïcode #1"
    shutil.copytree(page_site, folder)
    tab = new_tab((folder / "index.html").as_uri())
    tab.open(f"#grid?cell={PASSING}")
    tab.page.wait_for_selector(f'[data-open-cell="{PASSING}"]')


@pytest.mark.parametrize("width", [390, 1280])
def test_the_head_of_a_column_shows_the_whole_name_of_a_long_test(new_tab, web, width):
    page = new_tab(web, viewport={"width": width, "height": 900}).open("#grid?fold=none&q=platform:cpu-llvm")
    heads = page.eval_on_selector_all(
        ".squares:not(.folded) thead th:not(.corner) > span",
        """spans => spans.map(span => {
            span.firstChild.textContent = "test_compute_naive_ewald_energies_of_a_batch_with_virials"
            const { scrollWidth, clientWidth, scrollHeight, clientHeight } = span.parentElement
            return [scrollWidth - clientWidth, scrollHeight - clientHeight]
        })""",
    )
    assert len(heads) > 3
    assert [head for head in heads if max(head) > 1] == []
