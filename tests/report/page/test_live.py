"""The page of a run that goes on takes new data by itself, and loses neither the search nor the open cell."""

from __future__ import annotations

import json
import shutil

import pytest
from browsing import BROKEN
from serving import served
from shown import Page


@pytest.fixture
def live(page_site, tmp_path):
    """Serve a copy of the site; return its folder, its address and a function that changes the overview."""
    site = tmp_path / "site"
    shutil.copytree(page_site, site)

    def change(running: str, headline: str) -> None:
        overview = Page(page_site).overview
        overview["run_notes"]["running"] = running
        overview["headline"] = headline
        path = site / "data" / "overview.js"
        part = path.with_suffix(".part")
        part.write_text(f'kernelMatrix.put("overview",{json.dumps(overview)});\n')
        part.replace(path)

    def cell(identity: str, reason: str) -> None:
        """Give a cell another reason, in the file that has its details."""
        number = Page(page_site).rows[identity]["chunk"]
        chunk = Page(page_site).value(f"cells/{number}")
        chunk["cells"][identity]["cell"]["reason"] = reason
        path = site / "data" / "cells" / f"{number}.js"
        path.write_text(f'kernelMatrix.put("cells/{number}",{json.dumps(chunk)});\n')

    change.cell = cell
    with served(site) as address:
        yield address, change


def test_the_page_takes_new_data_and_keeps_the_view(live, new_tab):
    address, change = live
    change("1 of 2 jobs have ended.", "the first headline")
    tab = new_tab(address)
    page = tab.open(f"#grid?q=state:error&cell={BROKEN}")
    assert "1 of 2 jobs have ended." in page.inner_text(".running")
    page.wait_for_selector(f'[data-open-cell="{BROKEN}"]')
    change("2 of 2 jobs have ended.", "the second headline")
    tab.until("document.body.innerText.includes('the second headline')", 30)
    assert "2 of 2 jobs have ended." in page.inner_text(".running")
    assert page.input_value("#search") == "state:error"
    assert page.is_visible(f'[data-open-cell="{BROKEN}"]')
    change("", "the last headline")
    tab.until("document.body.innerText.includes('the last headline')", 30)
    assert page.query_selector(".running") is None
    assert page.input_value("#search") == "state:error"
    tab.settled()


def test_the_open_cell_is_drawn_again_and_keeps_what_somebody_did_in_it(live, new_tab):
    address, change = live
    change("1 of 2 jobs have ended.", "the first headline")
    tab = new_tab(address)
    page = tab.open(f"#grid?cell={BROKEN}")
    page.wait_for_selector(f'[data-open-cell="{BROKEN}"]')
    assert "1 of 3 error" not in page.inner_text("dialog#cell")
    page.fill("#case-filter", "tokens")
    page.click("[data-test=cases] summary >> nth=0")
    name = page.get_attribute("details[data-case][open]", "data-case")
    page.focus("#case-filter")
    page.evaluate("document.querySelector('dialog#cell').scrollTop = 120")
    scroll = page.evaluate("document.querySelector('dialog#cell').scrollTop")
    change.cell(BROKEN, "it was run again")
    change("2 of 2 jobs have ended.", "the second headline")
    tab.until("document.querySelector('dialog#cell').innerText.includes('it was run again')", 30)
    tab.settled()
    assert page.input_value("#case-filter") == "tokens"
    assert page.get_attribute("details[data-case][open]", "data-case") == name
    assert page.evaluate("document.activeElement.id") == "case-filter"
    assert page.evaluate("document.querySelector('dialog#cell').scrollTop") == scroll


def test_where_serve_shows_the_page_it_follows_a_run_that_begins_later(live, new_tab):
    address, change = live
    change("", "no run goes on")
    tab = new_tab(address)
    tab.open()
    change("0 of 2 jobs have ended.", "a run began")
    tab.until("document.body.innerText.includes('a run began')", 30)


def test_a_page_elsewhere_whose_run_is_over_asks_for_nothing_more(new_tab, live):
    address, change = live
    change("", "the run is over")
    tab = new_tab(address.replace("127.0.0.1", "localhost"))
    requests: list[str] = []
    tab.open()
    tab.page.on("request", lambda request: requests.append(request.url))
    tab.page.wait_for_timeout(6_000)
    assert requests == []
