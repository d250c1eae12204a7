"""JUnit XML of other tools: what each dialect says, and that what is not taken is said with its reason.

pytest.xml, ctest.xml and gtest.xml were written by these programs, cargo.xml by `cargo test`'s own formatter.
nextest.xml and bazel.xml have the documented form of theirs: these programs could not be installed where the files were
made.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest
from common import Doubles
from shown import Page
from suites import MATRIX, Suite
from together import first_are_quick

from kernel_matrix.cli import main
from kernel_matrix.config.plan import plan
from kernel_matrix.store import junit
from kernel_matrix.store.load import collect, not_taken
from kernel_matrix.store.record import Record
from kernel_matrix.vendors.machine import detect

FILES = Path(__file__).parent / "foreign"


@pytest.mark.parametrize(
    ("tool", "outcomes"),
    [
        ("ctest", {"kernels/scale/kernels/scale": "pass", "fails/fails": "fail", "skips/skips": "unavailable",
                   "off/off": "unavailable", "gone/gone": "error"}),
        ("gtest", {"Scale/Doubles": "pass", "Scale/Halves": "fail", "Scale/DISABLED_Thirds": "unavailable",
                   "Scale/Throws": "fail", "Typed/0/IsSmall": "pass", "Typed/1/IsSmall": "fail",
                   "All/Widths/Runs/0": "pass", "All/Widths/Runs/1": "unavailable"}),
        ("cargo", {"scale/doubles": "pass", "scale/halves": "fail"}),  # it does not list what it ignores
        ("bazel", {"kernels/scale_test/kernels/scale_test": "error", "kernels/good_test/kernels/good_test": "pass"}),
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


@pytest.mark.slow
def test_results_of_other_tools_are_named_on_the_terminal_and_on_the_page(doubles: Doubles, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    shutil.copytree(FILES, doubles.root / "build" / "results")
    main(["report", "--matrix", str(doubles.root / "matrix.yaml")])
    printed = capsys.readouterr().err
    site = doubles.root / "build" / "site"
    notes = json.loads((site / "compat.json").read_text())["notes"]
    page = Page(site).text
    for name, words in (
        ("pytest", "8 tests of another tool were not taken (2 fail, 1 error, 2 unavailable, 3 pass): test_foo/test_f,"),
        ("ctest", "5 tests of another tool were not taken (1 fail, 1 error, 2 unavailable, 1 pass): fails/fails,"),
        ("gtest", "8 tests of another tool were not taken"),
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


def test_all_failures_of_a_test_are_kept_and_what_it_printed_where_there_is_no_other_text():
    records = {record.case: record for file in ("gtest", "cargo") for record in junit.read(FILES / f"{file}.xml")}
    gtest = records["Scale/Halves"]
    assert "Expected equality" in gtest.message
    assert gtest.message.endswith("; scale_test.cc:4\nFailed")
    assert "Grüße & <tags>" in gtest.detail
    assert "assertion `left == right` failed: Grüße & <tags>" in records["scale/halves"].detail
    assert records["scale/doubles"].detail == ""


def read(tmp_path: Path, content: str | bytes, **attributes: str) -> dict[str, Record]:
    """Return the records by case of a file that holds one suite with this content."""
    given = "".join(f' {name}="{value}"' for name, value in attributes.items())
    path = tmp_path / "a.xml"
    whole = content if isinstance(content, bytes) else f'<testsuite name="s"{given}>{content}</testsuite>'.encode()
    path.write_bytes(whole)
    return {record.case: record for record in junit.read(path)}


OK = '<testcase classname="m" name="ok" time="0.1"/>'


@pytest.mark.parametrize(
    ("content", "attributes", "outcome", "words"),
    [
        ('<error message="setup died">no device</error>' + OK, {"errors": "1"}, "error", "setup died"),
        (OK + "<failure>late</failure>", {}, "fail", ""),
        (OK, {"failures": "1"}, "error", "by its own word 1 of its tests failed, and the file has 0 of them"),
        (f'<testsuite name="s" errors="2">{OK}</testsuite>', {"errors": "2"}, "error", "2 of its tests failed"),
    ],
)
def test_what_no_test_of_a_suite_says_is_a_result_of_its_own(tmp_path, content, attributes, outcome, words):
    records = read(tmp_path, content, **attributes)
    assert records.pop("m/ok").outcome == "pass"
    [(case, record)] = records.items()
    assert (case, record.outcome) == ("s/(the suite itself)", outcome)
    assert words in record.message


def test_words_of_another_tool_are_not_taken_for_ours(tmp_path):
    names = ("case", "outcome", "action", "attempts", "job", "run", "metric.latency", "metric.elements", "fact.device")
    words = "".join(f'<property name="{name}" value="{"fail" * 4}"/>' for name in names) + '<property value="x"/>'
    inside = f"<properties>{words}</properties>"
    records = read(tmp_path, f'{inside}<testcase classname="m" name="t">{inside}</testcase>')
    assert records == {"m/t": Record("m/t", "pass")}


def test_a_detail_that_cannot_be_used_costs_no_result(tmp_path):
    times = {"0,123": 0.123, "1,234.5": 1234.5, "1.2s": 0, "NaN": 0, "1e999": 0, "-345345": 0, "": 0, "2": 2}
    tests = "".join(f'<testcase classname="m" name="t{n}" time="{text}"/>' for n, text in enumerate(times))
    records = read(tmp_path, tests, failures="many")
    assert [record.seconds for record in records.values()] == [*times.values()]
    loud = f"<failure>{'x' * 300_000}</failure><system-out>{'line ' * 100_000}</system-out>"
    records = read(tmp_path, f'<testcase classname="m" name="loud">{loud}</testcase>{OK}')
    assert [record.outcome for record in records.values()] == ["fail", "pass"]
    assert len(records["m/loud"].detail) == 2**18


@pytest.mark.parametrize("encoding", ["GBK", "utf8mb4"])
def test_a_file_in_another_encoding_is_a_sentence_and_costs_only_itself(tmp_path, encoding):
    content = f"<?xml version='1.0' encoding='{encoding}'?><testsuite name='s'>{OK}</testsuite>".encode()
    (tmp_path / "other.xml").write_text(f'<testsuite name="s">{OK}</testsuite>')
    (tmp_path / "a.xml").write_bytes(content)
    collected = collect([tmp_path])
    assert [record.case for record in collected.records] == ["m/ok"]
    [sentence] = collected.broken
    assert "a.xml: " in sentence
    assert "encoding" in sentence
    assert "write it in UTF-8" in sentence


def test_a_reader_that_fails_costs_only_its_file(tmp_path, monkeypatch):
    for name in "ab":
        (tmp_path / f"{name}.xml").write_text(f'<testsuite name="{name}">{OK}</testsuite>')
    read_any = junit.read_any
    monkeypatch.setattr(junit, "read_any", lambda path, bounds: read_any(path, bounds) if path.stem == "b" else 1 / 0)
    collected = collect([tmp_path])
    assert len(collected.records) == 1
    assert "a.xml: refused: it cannot be read (ZeroDivisionError: division by zero)." in collected.broken[0]


def test_a_long_text_is_read_in_linear_time(tmp_path):
    text = "line of a log with 40 characters in it..\n" * 250_000
    began = time.process_time()
    records = read(tmp_path, f'<testcase classname="m" name="loud"><system-out>{text}</system-out></testcase>')
    assert time.process_time() - began < 5
    assert records["m/loud"].outcome == "pass"


@pytest.fixture
def of_tools(tmp_path) -> Suite:
    target = detect().devices[0].targets[-1]
    return Suite.made(tmp_path, {}, MATRIX.replace("[any]", f"[{target}]"))


@pytest.mark.parametrize(
    ("tool", "states"),
    first_are_quick(
        1,
        [
            ("pytest", {"held": 3, "fail": 2, "error": 1, "unavailable": 2}),
            ("ctest", {"held": 1, "fail": 1, "error": 1, "unavailable": 2}),
            ("gtest", {"held": 3, "fail": 3, "unavailable": 2}),
            ("nextest", {"held": 1, "fail": 1, "flaky": 1}),
            ("cargo", {"held": 1, "fail": 1}),
            ("bazel", {"held": 1, "error": 1}),
        ],
    ),
)
@pytest.mark.slow
def test_the_tests_of_another_tool_are_cases_like_those_of_pytest(of_tools, tool, states, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    file = of_tools.root / "matrix.yaml"
    words = ["--matrix", str(file), "--platform", "here", "--toolchain", "plain", str(FILES / f"{tool}.xml")]
    assert main(["ci", "take-junit", *words]) == 0
    main(["report", "--matrix", str(file)])
    document = json.loads((of_tools.root / "build" / "site" / "compat.json").read_text())
    counts = document["run"]["cases_by_state"]
    assert counts.pop("held") == states.pop("held")
    assert counts == states


@pytest.mark.slow
def test_the_tests_of_a_class_are_one_operator_and_a_retry_is_flaky(of_tools, monkeypatch, capsys):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    file = of_tools.root / "matrix.yaml"
    names = ("test_gemm[fp16/bf16-m=1]", "test_gemm[plain]", "test_gemm[path=/tmp/a]")
    tests = [f'<testcase classname="tests.test_gemm" name="{name}"/>' for name in names]
    failing = '<testcase classname="m" name="{}"><failure message="no"/></testcase>'
    tests += [failing.format("t"), '<testcase classname="m" name="t" retry="1"/>']
    tests += ['<testcase classname="m" name="u"/>', failing.format("u")]
    first, second = of_tools.root / "first.xml", of_tools.root / "second.xml"
    first.write_text(f'<testsuite name="s">{"".join(tests)}</testsuite>')
    second.write_text(f'<testsuite name="s">{"".join(tests[:3])}</testsuite>')
    words = ["--matrix", str(file), "--platform", "here", "--toolchain", "plain"]
    assert main(["ci", "take-junit", *words, str(first)]) == 0
    assert "It replaces" not in capsys.readouterr().out
    main(["report", "--matrix", str(file)])
    page = Page(of_tools.root / "build" / "site")
    states = {cell.rpartition("/")[2]: [*row["cases"].values()] for cell, row in page.rows.items()}
    assert states["tests.test_gemm.tests"] == ["held"] * 3
    assert states["m.tests"] == ["flaky", "fail"]
    [cell] = (cell for cell in page.cells if cell.endswith("/m.tests"))
    assert page.cells[cell]["results"]["t"]["repeat"].endswith("ci take-junit --platform here --toolchain plain FILE")
    capsys.readouterr()
    assert main(["ci", "take-junit", *words, str(second)]) == 0
    replaced = "It replaces an earlier take, of which 2 results are gone (1 pass, 1 fail), such as m/u."
    assert replaced in capsys.readouterr().out


def test_results_that_cannot_be_taken_say_why(of_tools, doubles, capsys, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def said(*words: str, matrix: Path | None = None) -> str:
        file = matrix or of_tools.root / "matrix.yaml"
        assert main(["ci", "take-junit", "--matrix", str(file), *words]) == 2
        return capsys.readouterr().err

    here = ("--platform", "here", "--toolchain", "plain")
    gtest = str(FILES / "gtest.xml")
    assert "--platform there: there is no such platform" in said("--platform", "there", "--toolchain", "plain", gtest)
    assert "--toolchain other: there is no such toolchain of the platform" in said(
        "--platform", "here", "--toolchain", "other", gtest
    )
    assert "absent.xml" in said(*here, str(FILES / "absent.xml"))
    assert "this is no XML, and no JUnit XML" in said(*here, __file__)
    assert "names operators" in said(*here, gtest, matrix=doubles.root / "matrix.yaml")
    own = of_tools.root / "own.xml"
    junit.write(own, "here.plain", [Record("a/b", "pass")], {"job": "here.plain"})
    assert "kernel-matrix has written it" in said(*here, str(own))
    (of_tools.root / "empty.xml").write_text("<testsuites/>")
    assert "there is no test in it" in said(*here, str(of_tools.root / "empty.xml"))
