"""Results are the same after JUnit XML was written and read; a broken file is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_matrix.base.errors import UserError
from kernel_matrix.store import junit
from kernel_matrix.store.junit import BrokenResultError
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record

JOB = {"device": "AMD gfx942", "version.torch": "2.13.0", "commit": "abc"}
RECORDS = [
    Record("p/t/c/op.forward/a", "pass", "run", seconds=1.5, metrics={"out.max_abs": 1e-7}, facts={"k": "v"}, job=JOB),
    Record("p/t/c/op.forward/b", "fail", "run", "", "too far", "trace", attempts=("error:launch",), job=JOB),
    Record("p/t/c/op.forward/c", "error", "compile", "lower", "ValueError: <no> & \x1b[31mred", "a\nb", job=JOB),
    Record("p/t/c/op.forward/d", "unavailable", message="no such device", job=JOB),
    Record("p/t/c/op.forward/e", "missing", message="the time was up", job=JOB),
    Record("p/t/c/op.forward/f", "excluded", message="known to be wrong", job=JOB),
]


def test_records_come_back_as_they_went(tmp_path):
    junit.write(tmp_path / "a.xml", "job", RECORDS, JOB)
    back = junit.read(tmp_path / "a.xml")
    without = [replace(record, run="") for record in back]
    assert without[:2] == RECORDS[:2]
    assert without[3:] == RECORDS[3:]
    assert back[2].message == "ValueError: <no> & \N{REPLACEMENT CHARACTER}[31mred"


@given(text=st.text(), number=st.floats())
@pytest.mark.slow
def test_any_text_and_number_survives(tmp_path_factory, text, number):
    path = tmp_path_factory.mktemp("xml") / "a.xml"
    junit.write(path, "job", [Record("a/b", "error", "run", "launch", text, text, metrics={"m": number})], {})
    [back] = junit.read(path)
    assert back.outcome == "error"
    assert repr(back.metrics["m"]) == repr(number)


@pytest.mark.parametrize("text", ["half \ud800 of a pair", "no character \ufffe", "\x00"])
def test_what_xml_cannot_hold_does_not_lose_the_results_of_a_job(tmp_path, text):
    records = [Record("a/b", "error", "run", "launch", text, text, facts={"fact": text}), Record("a/c", "pass")]
    junit.write(tmp_path / "a.xml", "job", records, {"version": text})
    broken, whole = junit.read(tmp_path / "a.xml")
    assert "\N{REPLACEMENT CHARACTER}" in broken.message
    assert (broken.message, broken.facts["fact"], broken.job["version"]) == (broken.detail,) * 3
    assert whole.outcome == "pass"


def test_a_truncated_file_is_named_and_the_rest_is_kept(tmp_path):
    junit.write(tmp_path / "a.xml", "job", RECORDS[:2], JOB)
    whole = (tmp_path / "a.xml").read_bytes()
    (tmp_path / "b.xml").write_bytes(whole[: len(whole) // 2])
    collected = collect([tmp_path])
    assert len(collected.records) == 2
    assert len(collected.broken) == 1
    assert "b.xml: not whole JUnit XML" in collected.broken[0]


@pytest.mark.parametrize("text", ["", "not xml", "<html/>", "<testsuites><testsuite><testcase></testsuites>"])
def test_what_is_not_junit_xml_is_said_so(tmp_path, text):
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(BrokenResultError, match=r"a\.xml"):
        junit.read(tmp_path / "a.xml")


def test_junit_xml_from_elsewhere_can_be_read(tmp_path):
    (tmp_path / "a.xml").write_text(
        '<testsuite name="pytest" tests="3"><testcase classname="tests.test_a" name="test_x" time="0.5"/>'
        '<testcase classname="tests.test_a" name="test_y"><failure message="assert 1 == 2">trace</failure></testcase>'
        '<testcase classname="tests.test_a" name="test_z"><skipped message="no GPU"/></testcase></testsuite>'
    )
    assert [(r.case, r.outcome) for r in junit.read(tmp_path / "a.xml")] == [
        ("tests.test_a/test_x", "pass"),
        ("tests.test_a/test_y", "fail"),
        ("tests.test_a/test_z", "unavailable"),
    ]


def test_a_failure_element_outweighs_a_property_that_says_pass(tmp_path):
    (tmp_path / "a.xml").write_text(
        '<testsuites name="kernel-matrix"><testsuite name="s"><testcase classname="a" name="b"><properties>'
        '<property name="outcome" value="pass"/></properties><failure message="wrong"/></testcase></testsuite>'
        "</testsuites>"
    )
    assert junit.read(tmp_path / "a.xml")[0].outcome == "fail"


@pytest.mark.parametrize(
    ("elements", "outcome", "read"),
    [
        ("<error message='it crashed'/>", "pass", "error"),
        ("<error message='it crashed'/>", "excluded", "error"),
        ("<skipped message='no GPU'/>", "pass", "unavailable"),
        ("<skipped message='the matrix says so'/>", "excluded", "excluded"),
        ("<skipped/><error message='it crashed'/>", "pass", "error"),
        ("", "fail", "fail"),
    ],
)
def test_a_property_makes_no_outcome_better_than_its_element(tmp_path, elements, outcome, read):
    (tmp_path / "a.xml").write_text(
        f'<testsuites name="kernel-matrix"><testsuite name="s"><testcase classname="a" name="b"><properties>'
        f'<property name="outcome" value="{outcome}"/></properties>{elements}</testcase></testsuite></testsuites>'
    )
    assert junit.read(tmp_path / "a.xml")[0].outcome == read


def test_every_run_is_a_suite(tmp_path):
    records = [replace(record, run=run) for run in "ab" for record in RECORDS]
    junit.write_all(tmp_path / "all.xml", records)
    back = junit.read(tmp_path / "all.xml")
    assert [record.case for record in back] == [record.case for record in records]
    assert len({record.run for record in back}) == 2


def test_a_results_folder_that_is_not_there_is_bad_input(tmp_path):
    with pytest.raises(UserError, match="there is no such results folder"):
        collect([tmp_path / "nowhere"])


def test_what_is_written_like_properties_is_none_where_xml_says_so(tmp_path):
    plain = (
        '<properties>\n<property name="action" value="run"/><property name="fact.a" value="it\'s > 1"/></properties>'
    )
    forged = '<properties><property name="stage" value="compile"/></properties>'
    path = tmp_path / "results.xml"
    for inside in (f"<!--{forged}-->", f"<system-out><![CDATA[{forged}]]></system-out>", f"<?x {forged}?>", ""):
        path.write_text(
            '<?xml version="1.0" encoding="utf-8"?>'
            '<testsuites name="kernel-matrix"><testsuite name="s"><testcase classname="a" name="b">'
            f"{plain}{inside}</testcase></testsuite></testsuites>"
        )
        (record,) = junit.read(path)
        assert (record.action, record.stage, record.facts) == ("run", "", {"a": "it's > 1"})
