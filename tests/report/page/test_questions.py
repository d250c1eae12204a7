"""The questions of a newcomer are answered from the first page, each with one search or at most two clicks."""

from __future__ import annotations

import pytest
from browsing import BROKEN, CPU, DIFFERING, ERROR, FAILING, PASSING
from common import harness
from shown import Page
from suites import MATRIX, Suite

from kernel_matrix.vendors.machine import detect


def row(page, vendor):
    """Return what the first view says of a vendor: its line, and the names of its squares."""
    squares = page.eval_on_selector_all(
        f'tr[data-row="{vendor}"] [data-summary]', "all => all.map(square => [square.ariaLabel, square.dataset.state])"
    )
    return page.inner_text(f'tr[data-row="{vendor}"] th'), squares


def answer(page, name):
    """Return an answer above the first view."""
    return page.inner_text(f"[data-answer={name}]")


def test_does_an_operator_work_on_a_vendor(tab):
    """No click: a fault and an absent device hide no pass."""
    page = tab.open()
    line, squares = row(page, "cpu")
    assert "ran on a machine: " in line
    (sinkhorn,) = [one for one in squares if "sinkhorn forward" in one[0]]
    assert sinkhorn[1] == "pass"
    assert " pass · " in sinkhorn[0]
    assert " 1 error" in sinkhorn[0]
    assert "1 red" in page.inner_text('[data-row=cpu] [aria-label*="sinkhorn forward"]')
    line, squares = row(page, "nvidia")
    assert "compiled for 10 targets, not run" in line
    line, squares = row(page, "amd")
    assert " unavailable" in line
    assert {state for _, state in squares} == {"unavailable"}
    page.click('[data-row=cpu] [aria-label*="sinkhorn forward"]')
    tab.until("document.querySelectorAll('[data-cell]').length > 5")
    cells = page.eval_on_selector_all("[data-cell]", "all => all.map(s => s.dataset.cell)")
    assert BROKEN in cells
    assert all(cell.endswith("sinkhorn.forward") and cell.startswith("cpu") for cell in cells)


def test_what_is_red_and_what_got_worse(tab, page_site):
    """No click."""
    page = tab.open()
    red = sum(row["state"] in ("fail", "error", "missing", "fixed") for row in Page(page_site).rows.values())
    assert f"{red} cells" in answer(page, "red")
    assert "CPU: " in answer(page, "red")
    worse = len(Page(page_site).value("history")["transitions"])
    assert f"{worse} worse" in answer(page, "changed")
    assert "inductor mhc_pre.forward" in answer(page, "changed")


def test_is_it_exact_has_one_answer(tab, page_site):
    """No click: the budget decides, at the top, in the square and in the view of the accuracy."""
    page = tab.open()
    rows = Page(page_site).rows
    measured = [row for row in rows.values() if row["share"] is not None]
    inside = sum(float(row["share"]) <= 1 for row in measured)
    assert inside < len(measured)
    said = answer(page, "exact")
    assert f"{inside} of {len(measured)}" in said
    assert "inside the error budget" in said
    assert "OpenCL in software: tvm-0.27" in said  # the odd one out
    for place in ("grid?fold=none&q=toolchain:reference", "accuracy?q=toolchain:reference"):
        page = tab.open(f"#{place}")
        text = page.inner_text(f'[data-cell="{PASSING}"]')
        assert "0.50 ×" in text, place
        assert f"{rows[PASSING]['share'] * 100:.2g} %" in text, place


def test_is_the_lane_of_a_vendor_dead(tab, page_site):
    """No click; with one, each of its lanes."""
    page = tab.open()
    assert "never" in row(page, "amd")[0]
    overview = Page(page_site).overview
    never = sum(one["last_result"] is None for one in overview["silent"])
    said = answer(page, "silent")
    assert f"{len(overview['silent'])} of {len(overview['lanes'])} lanes" in said  # one that never ran is silent too
    assert f"{never} of {len(overview['lanes'])} lanes never had a result" in said
    assert f"{len(overview['silent']) - never} lanes, the longest for " in said  # the results of this site are old
    page.click("[data-answer=silent] a")
    page.wait_for_selector("[data-test=machines]")
    assert "rocm/gfx942/triton-3.7" in page.text_content("[data-test=machines]")


@pytest.mark.parametrize(("words", "target"), [("MI300X", "gfx942"), ("sm90 triton", "sm_90"), ("arm tvm", "neoverse")])
def test_a_device_is_found_by_the_name_that_people_have_for_it(tab, words, target):
    """One search."""
    page = tab.open()
    page.fill("#search", words)
    tab.until("document.querySelectorAll('[data-cell]').length > 0")
    cells = page.eval_on_selector_all("[data-cell]", "all => all.map(s => s.dataset.cell)")
    assert all(target in cell for cell in cells)
    assert page.inner_text("[data-test=said] p")


def test_a_search_that_finds_nothing_suggests_one_that_does(tab):
    """One click."""
    page = tab.open("#grid?q=sinkhorm+nvidia")
    assert "Nothing matches." in page.inner_text("[data-test=totals]")
    page.click("[data-suggested='sinkhorn nvidia']")
    tab.until("document.querySelectorAll('[data-cell]').length > 0")
    assert page.input_value("#search") == "sinkhorn nvidia"


def test_which_version_is_to_be_pinned(tab):
    """One click."""
    page = tab.open()
    page.click("nav [data-view=toolchains]")
    page.wait_for_selector("[data-test=pins]")
    said = page.inner_text("[data-pin='tvm-0.27']")
    assert said.startswith("Pin the lock of tvm-0.27 for CPU (ran on a machine: ")
    assert "NVIDIA CUDA (compiled for 10 targets, not run)" in said
    assert said.endswith("what 1 of 1 probes ask for holds.")


def test_since_which_version_of_a_compiler_something_differs_and_what_will_break(tab):
    """One click."""
    page = tab.open()
    page.click("nav [data-view=toolchains]")
    page.wait_for_selector("[data-test=differences]")
    assert page.inner_text("[data-test=warning]").startswith("Early warning: numpy 3.0 will break 1 of 1 cases")
    changes = page.inner_text("[data-test=differences] ul")
    assert changes == "3.0 (2.0 before): registers in 1 case, such as here/case: 96 → 104"
    page.click("[data-test=differences] summary")
    assert page.inner_text("[data-test=differences] tbody tr").split("\t") == [
        "here/case", "compiled · 96 · 0 · 64", "compiled · 104 · 0 · 64",
    ]  # fmt: skip
    assert page.inner_text("[data-test=differences] tbody b") == "104"


def test_what_did_a_sanitizer_find(tab):
    """One click."""
    page = tab.open("#grid?q=cpu-llvm")
    page.click("nav [data-view=checks]")
    page.wait_for_selector("[data-test=checked-cells]")
    rows = [row.inner_text().split("\t") for row in page.query_selector_all("[data-test=checked-cells] tbody tr")]
    assert rows == [[PASSING, "3 clean"], [FAILING, "1 with a finding, 1 without an end, 1 clean"]]
    assert "mhc_pre.cu:12" in page.inner_text("[data-test=checks] section")
    page.fill("#search", "rocm")
    tab.until("document.body.innerText.includes('No checked cell is in this search.')")


def test_the_search_of_the_browser_and_print_reach_every_lane(tab):
    page = tab.open()
    assert "gfx942" in page.text_content("tr[data-row=amd] [hidden=until-found]")
    page.emulate_media(media="print")
    assert page.evaluate("document.querySelector('tr[data-row=amd] .lanes').getBoundingClientRect().height > 0")
    page.emulate_media(media="screen")
    page.click("[data-test=unfold-all]")
    tab.until("document.querySelectorAll('tr[data-row]').length > 100")
    assert page.text_content('tr[data-row="rocm/gfx942/triton-3.7"] th') == "triton-3.7gfx942"


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


def test_what_is_red_where_nothing_was_tested_says_so(new_tab, tmp_path):
    target = detect().devices[0].targets[-1]
    skips = "import pytest\n\n@pytest.mark.skip(reason='later')\ndef test_a(): pass\n"
    suite = Suite.made(tmp_path, {"tests/test_a.py": skips}, MATRIX.replace("[any]", f"[{target}]"))
    words = ("--matrix", str(suite.root / "matrix.yaml"))
    assert harness("run", *words, "--executor", "current").returncode == 1
    assert harness("report", *words).returncode == 1
    page = new_tab(f"file://{suite.root}/build/site/index.html").open()
    said = page.inner_text("[data-answer=red]")
    assert "Nothing was tested" in said
    assert "no case of 1 cell has a result" in said
