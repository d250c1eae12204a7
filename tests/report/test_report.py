"""The dashboard shows what is known and no more, and needs no network."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from xml.etree import ElementTree

import pytest
from checkouts import ANOTHER, AtCommit
from common import ROOT, few_cells
from judges import make_document, write_site
from pydantic import ValidationError
from records import TRITON, all_cases, compiled
from shown import Page

from kernel_matrix.cli import main
from kernel_matrix.config.plan import plan
from kernel_matrix.report import badges
from kernel_matrix.report import site as sites
from kernel_matrix.report.document import Document, schema
from kernel_matrix.report.sentences import headline
from kernel_matrix.results.present import Present
from kernel_matrix.store import junit
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record


@pytest.fixture(scope="module")
def planned(matrix):
    """Return the plan of a few targets: what a report says of a cell does not depend on how many there are."""
    return few_cells(plan(matrix, "quick"))


A_DAY_LATER = datetime(2026, 1, 2, tzinfo=UTC)  # than the start of the records' jobs


@pytest.fixture
def make(matrix, planned, tmp_path):
    """Write the site of some records and return (the document, the site's folder)."""

    def write(records, broken=(), present=None):
        site = tmp_path / "site"
        return write_site(matrix, planned, records, site, present=present, broken=broken, now=A_DAY_LATER), site

    return write


@pytest.fixture(scope="module")
def passed(matrix, planned, passing, tmp_path_factory):
    """Return the document and the site of results that all passed; no test may change the site."""
    site = tmp_path_factory.mktemp("passed") / "site"
    return write_site(matrix, planned, all_cases(planned, passing), site, now=A_DAY_LATER), site


def test_compat_json_says_every_cell_with_its_counts(passed, planned):
    _, site = passed
    compat = json.loads((site / "compat.json").read_text())
    assert compat["schema_version"] == 2
    keys = {"package", "platform", "target", "toolchain", "backend", "op", "direction", "state", "evidence", "cases"}
    assert all(keys <= cell.keys() for cell in compat["cells"])
    assert sum(sum(cell["cases"].values()) for cell in compat["cells"]) == len(planned.cases) == compat["run"]["cases"]
    triton = next(cell for cell in compat["cells"] if cell["id"] == TRITON)
    assert (triton["state"], triton["evidence"], triton["versions"]) == ("pass", "ran", {"torch": ["2.13.0"]})


@pytest.mark.slow
def test_the_badge_is_green_only_when_something_ran_and_nothing_is_red(matrix, planned, passing, tmp_path):
    expected = {case.id for case in planned.cases if case.expectations}
    records = [Record(r.case, "unavailable") if r.case in expected else r for r in all_cases(planned, passing)]
    write_site(matrix, planned, records, tmp_path, now=A_DAY_LATER)
    badge = json.loads((tmp_path / "badge.json").read_text())
    assert (badge["color"], "ran" in badge["message"]) == ("#1a7f37", True)
    assert badge["message"] in "".join(ElementTree.parse(tmp_path / "badge.svg").getroot().itertext())
    first = next(case.id for case in planned.cases if case.cell.id == TRITON)
    for outcome in ("fail", "error"):
        red = [replace(r, outcome=outcome, message="x") if r.case == first else r for r in records]
        badge = badges.of_document(make_document(matrix, planned, red, now=A_DAY_LATER))
        assert (badge.endpoint()["color"], f"1 {outcome} of" in badge.message) == ("#cf222e", True)


@pytest.mark.slow
def test_the_badge_of_what_was_only_compiled_is_not_green(make, planned):
    _, site = make([Record(case.id, "unavailable") if case.expectations else compiled(case) for case in planned.cases])
    assert json.loads((site / "badge.json").read_text())["color"] == "#6e7781"


@pytest.mark.slow
def test_the_page_opens_without_a_network(passed):
    _, site = passed
    page = (site / "index.html").read_text()
    files = re.findall(r"""(?:src|href)\s*=\s*["']([^"'#][^"']*)""", page)
    assert files
    for file in files:
        assert file == "data:," or (site / file.partition("?")[0]).is_file(), file
    for text in (page, (site / "app.css").read_text()):
        assert "@import" not in text
        assert not re.findall(r"url\((?!data:)", text)


@pytest.mark.slow
def test_a_hostile_message_stays_text(make, planned):
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    case = planned.cases[0]
    _, site = make([Record(case.id, "error", "run", "launch", hostile, hostile, job={"device": hostile})], [hostile])
    page = Page(site)
    for path in (site / "index.html", *site.glob("data/**/*.js")):
        assert "<script>alert" not in path.read_text(), path
        assert "<img" not in path.read_text(), path
    assert page.cells[case.cell.id]["results"][case.name]["reason"] == hostile
    assert page.overview["problems"] == [hostile]


@pytest.mark.slow
def test_grey_is_never_drawn_green(make, planned):
    _, site = make([Record(case.id, "unavailable", message="no such device") for case in planned.cases])
    page = Page(site)
    assert {row["state"] for row in page.rows.values()} <= {"unavailable", "excluded"}
    assert {state for row in page.rows.values() for state in row["cases"].values()} <= {"unavailable", "excluded"}
    assert "had no device" in page.overview["headline"]
    assert " ran" not in page.overview["headline"]


def test_the_summary_names_what_is_red_and_how_to_repeat_it(make, planned, passing):
    case = next(c for c in planned.cases if c.cell.id == TRITON)
    _, site = make([replace(passing(case), outcome="fail", message="out: max_abs 1 is over 0.1")])
    summary = (site / "summary.md").read_text()
    assert f"## {TRITON}: fail" in summary
    assert "out: max_abs 1 is over 0.1" in summary
    assert f"kernel-matrix run --platform cuda --case {TRITON}" in summary


@pytest.mark.slow
def test_the_merged_xml_holds_every_collected_record(matrix, planned, passing, tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    junit.write(results / "a.xml", "a", [passing(case) for case in planned.cases[:5]], {"device": "x"})
    collected = collect([results])
    site = tmp_path / "site"
    write_site(matrix, planned, collected.records, site)
    assert not (site / "junit.xml").exists(), "it is written on request, because it takes long"
    sites.write_junit(site, collected.records)
    assert len(junit.read(site / "junit.xml")) == 5
    sites.write_junit(site, None)
    assert not (site / "junit.xml").exists()


@pytest.mark.slow
def test_compat_json_is_the_document_and_its_schema_is_published(passed):
    whole, site = passed
    text = (site / "compat.json").read_text()
    read_back = Document.model_validate_json(text)
    assert read_back.model_dump() == whole.model_dump()
    assert "results" not in json.loads(text)["cells"][0], "the cases are for the page only"
    published = ROOT / "compat.schema.json"
    assert published.read_text() == schema(), "write it anew: kernel-matrix check --schema compat"
    properties = json.loads(schema())["properties"]
    assert set(properties) == set(json.loads(text))
    assert properties["schema_version"]["const"] == whole.schema_version


def test_the_schema_command_prints_the_schema_of_either_file(capsys):
    assert main(["check", "--schema", "compat"]) == 0
    assert capsys.readouterr().out == schema()
    assert main(["check", "--schema"]) == 0
    assert capsys.readouterr().out == (ROOT / "matrix.schema.json").read_text()


def test_nothing_changes_a_document(passed):
    whole, _ = passed
    with pytest.raises(ValidationError, match="frozen"):
        whole.run.left_out = 1


@pytest.mark.slow
def test_each_job_stands_in_the_document_once(make, planned, passing):
    records = [replace(record, job={"job": f"job {n % 3}"}) for n, record in
               enumerate(all_cases(planned, passing))]  # fmt: skip
    whole, site = make(records)
    assert [job["job"] for job in whole.jobs] == ["job 0", "job 1", "job 2"]
    by_case = {record.case: record.job["job"] for record in records}
    of_page = {f"{cell}/{name}": result["job"] for cell, shown in Page(site).cells.items()
               for name, result in shown["results"].items()}  # fmt: skip
    assert {case: job["job"] for case, job in of_page.items() if job} == {
        case.id: by_case[case.id] for case in planned.cases if not case.exclusion
    }


OLD = Present(datetime(2026, 5, 1, tzinfo=UTC), AtCommit("a" * 12))


def of_the_old_commit(records):
    return [replace(record, job={**record.job, "commit": "b" * 12}) for record in records]


@pytest.mark.slow
def test_what_is_stale_is_counted_and_never_plain_green(make, planned, passing):
    expected = {case.id for case in planned.cases if case.expectations}
    good = [record for record in all_cases(planned, passing) if record.case not in expected]
    records = [*of_the_old_commit(good), *(Record(case, "unavailable") for case in expected)]
    whole, site = make(records, present=OLD)
    [reason] = whole.stale
    assert reason.reason == ANOTHER
    assert reason.cases == whole.run.stale_cases == len(good) - whole.run.cases_by_state["excluded"]
    assert f"{whole.run.stale} are stale." in headline(whole)
    badge = json.loads((site / "badge.json").read_text())
    assert badge["color"] == "#6e7781"
    assert f"{whole.run.stale} stale" in badge["message"]
    lane = json.loads((site / "badges" / "cuda.sm_90.triton-3.7.json").read_text())
    assert (lane["color"], "stale" in lane["message"]) == ("#6e7781", True)
    summary = (site / "summary.md").read_text()
    assert f"{whole.run.stale_cases} of {whole.run.cases} cases are stale" in summary
    assert "| pass, stale | ran |" in summary
    page = Page(site)
    assert {bool(row["stale"]) for row in page.rows.values() if row["state"] == "pass"} == {True}
    assert page.rows[TRITON]["stale"] == len(page.cells[TRITON]["results"])
    assert {result["stale"] for result in page.cells[TRITON]["results"].values()} == {reason.reason}
    assert page.overview["run"]["stale_cases"] == whole.run.stale_cases
    cell = next(cell for cell in json.loads((site / "compat.json").read_text())["cells"] if cell["id"] == TRITON)
    assert (cell["state"], cell["stale"]) == ("pass", reason.reason)


@pytest.mark.slow
def test_a_report_where_nothing_is_stale_does_not_speak_of_it(passed):
    _, site = passed
    assert "stale" not in (site / "badge.json").read_text()
    assert "stale" not in (site / "summary.md").read_text()
    page = Page(site)
    assert page.overview["stale"] == []
    assert not any(row["stale"] for row in page.rows.values())


@pytest.mark.slow
def test_some_present_runs_among_stale_ones_keep_the_badge_green(make, planned, passing):
    expected = {case.id for case in planned.cases if case.expectations}
    good = [record for record in all_cases(planned, passing) if record.case not in expected]
    now = [replace(r, job={**r.job, "commit": "a" * 12}) for r in good if r.case.startswith(f"{TRITON}/")]
    before = of_the_old_commit(r for r in good if not r.case.startswith(f"{TRITON}/"))
    _, site = make([*now, *before, *(Record(case, "unavailable") for case in expected)], present=OLD)
    assert json.loads((site / "badge.json").read_text())["color"] == "#1a7f37"


@pytest.mark.slow
def test_the_baseline_has_the_name_that_the_package_gives_it(matrix, planned, passing, tmp_path):
    package = matrix.package.model_copy(update={"baseline": "the old kernels"})
    case = next(c for c in planned.cases if c.timed and not c.exclusion)
    record = passing(case)
    times = {"time.run": 1e-3, "time.eager": 2e-3, "time.ratio": 2.0, "time.rounds": 5.0}
    record = replace(record, metrics={**record.metrics, **times})
    whole = write_site(matrix.model_copy(update={"package": package}), planned, [record], tmp_path)
    assert whole.speed[0].toolchains[case.cell.toolchain].ratio == 2
    page = Page(tmp_path)
    assert page.overview["run"]["baseline"] == "the old kernels"
    [timed] = page.value("speed")["cases"]
    assert timed["toolchains"] == {case.cell.toolchain: {"run": 1e-3, "baseline": 2e-3, "ratio": 2, "rounds": 5}}


@pytest.mark.slow
def test_only_the_versions_that_people_look_for_are_shown(matrix, planned, passing, tmp_path):
    case = next(c for c in planned.cases if c.cell.id == TRITON)
    record = replace(passing(case), job={"python": "3.12.3", "version.Some_Compiler": "1", "version.left-pad": "2"})
    package = matrix.package.model_copy(update={"distributions": ["some-compiler"]})
    whole = make_document(matrix.model_copy(update={"package": package}), planned, [record])
    assert next(cell for cell in whole.cells if cell.id == TRITON).versions == {
        "Some_Compiler": ("1",), "python": ("3.12.3",)}  # fmt: skip
