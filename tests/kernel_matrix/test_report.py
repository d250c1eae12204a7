"""The dashboard shows what is known and no more, and needs no network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from test_compare import TRITON, compiled

from kernel_matrix.config.plan import plan
from kernel_matrix.report.site import report
from kernel_matrix.results import junit
from kernel_matrix.results.collect import Collected, collect
from kernel_matrix.results.compare import compare
from kernel_matrix.results.record import Record


@pytest.fixture(scope="module")
def planned(matrix):
    return plan(matrix, "quick")


@pytest.fixture
def make(matrix, planned, tmp_path):
    """Write the site of some records and return (the document, the site's folder)."""

    def write(records, broken=()):
        collected = Collected((), tuple(records), tuple(broken))
        return report(matrix, compare(planned, records), collected, tmp_path / "site"), tmp_path / "site"

    return write


def all_cases(planned, passing):
    return [passing(case) for case in planned.cases]


def test_compat_json_says_every_cell_with_its_counts(make, planned, passing):
    _, site = make(all_cases(planned, passing))
    compat = json.loads((site / "compat.json").read_text())
    assert compat["schema_version"] == 1
    keys = {"package", "platform", "target", "toolchain", "backend", "op", "direction", "state", "evidence", "cases"}
    assert all(keys <= cell.keys() for cell in compat["cells"])
    assert sum(sum(cell["cases"].values()) for cell in compat["cells"]) == len(planned.cases) == compat["run"]["cases"]
    triton = next(cell for cell in compat["cells"] if cell["id"] == TRITON)
    assert (triton["state"], triton["evidence"], triton["versions"]) == ("pass", "ran", {"torch": ["2.13.0"]})


@pytest.mark.parametrize(
    ("outcome", "colour", "words"),
    [("pass", "#1a7f37", "ran"), ("fail", "#cf222e", "1 fail of"), ("error", "#cf222e", "1 error of")],
)
def test_the_badge_is_green_only_when_something_ran_and_nothing_is_red(make, planned, passing, outcome, colour, words):
    records = all_cases(planned, passing)
    records = [r if outcome == "pass" or r.case != next(c.id for c in planned.cases if c.cell.id == TRITON)
               else replace(r, outcome=outcome, message="x") for r in records]  # fmt: skip
    expected = [c for c in planned.cases if c.expectations]
    records = [Record(r.case, "unavailable") if any(c.id == r.case for c in expected) else r for r in records]
    _, site = make(records)
    badge = json.loads((site / "badge.json").read_text())
    assert badge["color"] == colour
    assert words in badge["message"]
    assert badge["message"] in "".join(ElementTree.parse(site / "badge.svg").getroot().itertext())


def test_the_badge_of_what_was_only_compiled_is_not_green(make, planned):
    _, site = make([Record(case.id, "unavailable") if case.expectations else compiled(case) for case in planned.cases])
    assert json.loads((site / "badge.json").read_text())["color"] == "#6e7781"


def test_the_page_opens_without_a_network(make, planned, passing):
    _, site = make(all_cases(planned, passing))
    page = (site / "index.html").read_text()
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page)
    assert "@import" not in page
    assert "url(" not in page


def test_a_hostile_message_stays_text(make, planned):
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    case = planned.cases[0]
    _, site = make([Record(case.id, "error", "run", "launch", hostile, hostile, job={"device": hostile})], [hostile])
    page = (site / "index.html").read_text()
    assert "<script>alert" not in page
    assert "<img" not in page
    embedded = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert embedded
    assert hostile in json.loads(embedded.group(1))["texts"]


def test_grey_is_never_drawn_green(make, planned):
    _, site = make([Record(case.id, "unavailable", message="no such device") for case in planned.cases])
    page = (site / "index.html").read_text()
    assert 'class="cell s-pass' not in page
    assert "✓ " not in page
    assert "had no device" in page
    assert "ran" not in re.search(r'<p class="headline">(.*?)</p>', page).group(1)


def test_the_summary_names_what_is_red_and_how_to_repeat_it(make, planned, passing):
    case = next(c for c in planned.cases if c.cell.id == TRITON)
    _, site = make([replace(passing(case), outcome="fail", message="out: max_abs 1 is over 0.1")])
    summary = (site / "summary.md").read_text()
    assert f"## {TRITON}: fail" in summary
    assert "out: max_abs 1 is over 0.1" in summary
    assert f"ci/nox -s test-cuda -- --case '{TRITON}'" in summary


def test_the_merged_xml_holds_every_collected_record(matrix, planned, passing, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    junit.write(results / "a.xml", "a", [passing(case) for case in planned.cases[:5]], {"device": "x"})
    collected = collect([results])
    report(matrix, compare(planned, collected.records), collected, tmp_path / "site")
    assert len(junit.read(tmp_path / "site" / "junit.xml")) == 5
