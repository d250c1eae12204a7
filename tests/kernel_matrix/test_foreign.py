"""JUnit XML of other tools: what each dialect says, and that what is not taken is said with its reason.

pytest.xml and ctest.xml were written by these programs; gtest.xml and nextest.xml have the form of theirs.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Doubles
from shown import Page

from kernel_matrix.cli import main
from kernel_matrix.config.plan import plan
from kernel_matrix.results import junit
from kernel_matrix.results.collect import collect
from kernel_matrix.results.foreign import not_taken
from kernel_matrix.results.record import Record

FILES = Path(__file__).parent / "foreign"


@pytest.mark.parametrize(
    ("tool", "outcomes"),
    [
        ("ctest", {"kernels/scale/kernels/scale": "pass", "fails/fails": "fail", "skips/skips": "unavailable",
                   "off/off": "unavailable", "gone/gone": "unavailable"}),
        ("gtest", {"Scale/Doubles": "pass", "Scale/Halves": "fail", "Scale/DISABLED_Thirds": "unavailable",
                   "All/Widths/Runs/0": "unavailable"}),
        ("nextest", {"kernels/scale::doubles": "pass", "kernels/scale::flaky": "pass",
                     "kernels/scale::halves": "fail"}),
    ],
)  # fmt: skip
def test_a_dialect_is_read_and_what_did_not_run_is_no_pass(tool, outcomes):
    assert {record.case: record.outcome for record in junit.read(FILES / f"{tool}.xml")} == outcomes


def test_a_test_that_passed_on_a_repeat_says_so():
    attempts = {record.case: record.attempts for record in junit.read(FILES / "nextest.xml")}
    assert attempts["kernels/scale::flaky"] == ("fail",)
    assert attempts["kernels/scale::doubles"] == ()


def test_results_of_other_tools_are_named_on_the_terminal_and_on_the_page(doubles: Doubles, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    shutil.copytree(FILES, doubles.root / "build" / "results")
    main(["report", "--matrix", str(doubles.root / "matrix.yaml")])
    printed = capsys.readouterr().err
    site = doubles.root / "build" / "site"
    notes = json.loads((site / "compat.json").read_text())["notes"]
    page = Page(site).text
    for name, words in (
        ("pytest", "9 tests of another tool were not taken (2 fail, 2 error, 2 unavailable, 3 pass): test_foo/test_f,"),
        ("ctest", "5 tests of another tool were not taken (1 fail, 3 unavailable, 1 pass): fails/fails,"),
        ("gtest", "4 tests of another tool were not taken"),
        ("nextest", "3 tests of another tool were not taken"),
    ):
        assert f"{name}.xml: {words}" in printed
        assert [note for note in notes if f"{name}.xml: {words}" in note]
        assert f"{name}.xml: {words}" in page
    assert "A result counts if it has the id of a planned case." in page


def test_a_result_of_another_tool_that_has_the_id_of_a_case_is_taken(doubles: Doubles):
    case = plan(doubles.matrix, "quick").cases[0].id
    cell, _, name = case.rpartition("/")
    folder = doubles.root / "build" / "results"
    folder.mkdir(parents=True)
    (folder / "other.xml").write_text(
        f'<testsuite name="t"><testcase classname="{cell}" name="{name}"><failure message="wrong"/></testcase>'
        '<testcase classname="a" name="b\x0b"/></testsuite>'.replace("\x0b", "&#9;")
    )
    collected = collect([folder])
    [sentence] = not_taken(collected.foreign, {case})
    assert sentence.endswith(
        "other.xml: 1 test of another tool was not taken (1 pass): a/b?. A result counts if it has the id of a "
        "planned case."
    )


def test_the_harness_s_own_records_are_of_no_other_tool(tmp_path):
    junit.write(tmp_path / "a.xml", "here.old", [Record("here/any/old/double.forward/tokens1", "pass")],
                {"job": "here.old"})  # fmt: skip
    assert collect([tmp_path]).foreign == {}
