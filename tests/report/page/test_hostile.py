"""Results that want to break the page, or to run in it, do neither."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace

import pytest
from browsing import FAILING, PASSING, VIEWS
from common import ROOT, figures_of, job_of
from judges import write_site
from shown import Page

from kernel_matrix.config.load import load
from kernel_matrix.config.plan import plan
from kernel_matrix.results.history import History, Measurement
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import Bounds

HOSTILE = (
    "</script><script>window.ran = 1</script><img src=x onerror='window.ran = 2'>\0\u2028\u202e"
    "<svg onload='window.ran = 3'><a href='javascript:window.ran = 4'>x</a> ${window.ran = 5} {{7*7}} %3Cb%3E"
)
LONGEST = Bounds().text
LONG = "tokens7-streams4-fp32-paper-scale1-seed0"  # a case with the longest texts
FUTURE = "2099-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the site of hostile results of one toolchain."""
    matrix = load(ROOT / "matrix.yaml")
    planned = plan(matrix, "quick")
    jobs = tuple(job for job in planned.jobs if job.id in ("cpu-llvm.reference", "cpu-llvm.inductor"))
    planned = replace(planned, jobs=jobs)
    records = [record for job in planned.jobs for case in job.cases for record in results_of(case)]
    runs = tuple(
        Measurement(started=FUTURE if day else "not a time", commit=HOSTILE[:100], device=HOSTILE,
                    noise={HOSTILE: 1e300}, speed={HOSTILE: 0.0}, seconds={HOSTILE: -1.0})
        for day in range(3)
    )  # fmt: skip
    earlier = History(measurements={PASSING: runs, HOSTILE: runs})
    folder = tmp_path_factory.mktemp("hostile") / "site"
    write_site(matrix, planned, records, folder, broken=(HOSTILE, "z" * 1_000_000), earlier=earlier)
    return folder


def results_of(case):
    """Make the hostile results of a case: an error with its text, or numbers that are none, some of them twice."""
    job = {**job_of(case), "device": HOSTILE, "commit": HOSTILE, "started": FUTURE, HOSTILE: HOSTILE}
    if case.cell.id == FAILING:
        return [Record(case.id, "error", "run", HOSTILE, HOSTILE, HOSTILE, job=job, facts={HOSTILE: HOSTILE})]
    if case.cell.id.endswith("inductor/sinkhorn.forward"):
        return [Record(case.id, "error", "run", "launch", "m" * LONGEST, "d" * LONGEST, job=job)]
    if case.cell.id == PASSING:
        names = case.owed.outputs or ("out",)
        wrong = {"max_abs": math.nan, "rel_fro": math.inf, "ulp_max": math.inf, "ulp_p99": math.nan, "ulp_median": -1.0}
        metrics = figures_of(case, **dict.fromkeys(names, wrong))
        metrics |= {"time.run": 0.0, "time.eager": math.inf, "time.ratio": math.nan, "time.rounds": 1.0,
                    "artifact.registers": math.inf, "artifact.bytes": -1.0}  # fmt: skip
        record = Record(case.id, "fail", "run", message="x", metrics=metrics, job=job, seconds=math.inf)
        return [record, record]
    return []


@pytest.mark.parametrize("view", [*VIEWS, f"grid?cell={FAILING}", f"grid?cell={PASSING}"])
def test_no_text_of_a_result_runs_and_every_view_opens(new_tab, site, view):
    tab = new_tab(f"file://{site}/index.html")
    page = tab.open(f"#{view}")
    assert page.evaluate("window.ran") is None
    assert page.eval_on_selector_all("#page script, #page img", "all => all.length") == 0
    assert page.eval_on_selector_all("a[href^='javascript:']", "all => all.length") == 0
    assert len(page.inner_text("#page")) > 200
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_a_hostile_message_is_shown_as_the_text_that_it_is(new_tab, site):
    tab = new_tab(f"file://{site}/index.html")
    page = tab.open(f"#grid?cell={FAILING}")
    assert "</script><script>window.ran = 1</script>" in page.text_content("dialog#cell")


def test_the_longest_message_of_a_file_opens_cut(new_tab, site):
    tab = new_tab(f"file://{site}/index.html")
    cell = "cpu-llvm/x86-64-v3/inductor/sinkhorn.forward"
    page = tab.open(f"#grid?cell={cell}&case={LONG}")
    page.wait_for_selector(f'[data-case="{LONG}"][open]')
    text = page.text_content("dialog#cell")
    assert "mmmmmmmmm" in text
    page.click(f'[data-case="{LONG}"] [data-test=show-all] >> nth=0')
    assert f"{LONGEST - 100_000} more characters are in the results" in page.text_content("dialog#cell")
    assert len(text) < 3 * 100_000


@pytest.mark.parametrize("link", ["#%", "#grid?q=%zz", "#nothing", "#grid?cell=a/b/c/d.e", "#a/b/c/d.e",
                                  "#grid?fold=x,%00&group=y&dtype=<b>", "#grid?q=((((", "#grid?q=noise:>", "#__proto__",
                                  "#grid?cell=__proto__", "#accuracy?dtype=__proto__",
                                  "#grid?q=<img src=x onerror=window.ran=1>"])  # fmt: skip
def test_any_link_opens_a_page(new_tab, web, link):
    tab = new_tab(web)
    page = tab.open(link)
    assert page.evaluate("window.ran") is None
    assert len(page.inner_text("#page")) > 200


def test_data_of_an_unknown_version_are_said_to_be_so(new_tab, page_site, tmp_path):
    shutil.copytree(page_site, tmp_path / "site")
    path = tmp_path / "site" / "data" / "overview.js"
    overview = {**Page(page_site).overview, "schema_version": 999, "cells": {"new": []}}
    path.write_text(f'kernelMatrix.put("overview",{json.dumps(overview)});\n')
    tab = new_tab(f"file://{tmp_path}/site/index.html")
    tab.page.goto(tab.address)
    tab.until("document.body.innerText.includes('999')")
    assert "version" in tab.page.inner_text("body")


@pytest.mark.parametrize("content", ["", "kernelMatrix.put(", 'kernelMatrix.put("cells/0",null);', "alert(1"])
def test_a_broken_file_of_data_is_said_to_be_so(new_tab, page_site, tmp_path, content):
    shutil.copytree(page_site, tmp_path / "site")
    row = Page(page_site).rows[PASSING]
    (tmp_path / "site" / "data" / "cells" / f"{row['chunk']}.js").write_text(content)
    tab = new_tab(f"file://{tmp_path}/site/index.html")
    tab.page.goto(f"{tab.address}#grid?cell={PASSING}")
    tab.page.wait_for_selector("dialog#cell[open] .later [role=alert]")
    tab.faults[:] = [fault for fault in tab.faults if "SyntaxError" not in fault and "Unexpected" not in fault
                     and "missing )" not in fault]  # fmt: skip  # the browser says of the file what it is


def test_a_file_of_data_that_is_absent_is_said_to_be_so(new_tab, page_site, tmp_path):
    shutil.copytree(page_site, tmp_path / "site")
    shutil.rmtree(tmp_path / "site" / "data" / "cells")
    tab = new_tab(f"file://{tmp_path}/site/index.html")
    tab.page.goto(f"{tab.address}#grid?cell={PASSING}")
    tab.page.wait_for_selector("dialog#cell[open] .later [role=alert]")
    assert f"data/cells/{Page(page_site).rows[PASSING]['chunk']}.js" in tab.page.inner_text("dialog#cell")
    tab.faults[:] = [fault for fault in tab.faults if "data/cells/" not in fault and "ERR_FILE_NOT_FOUND" not in fault]
