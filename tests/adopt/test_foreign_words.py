"""Results of other tools: what a retry is, whose word a skip is, and numbers that do not agree with the tests."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from suites import MATRIX, Suite

from kernel_matrix.adopt.other_tools import files_of, read_all
from kernel_matrix.base.errors import UserError
from kernel_matrix.cli import main
from kernel_matrix.job.skips import is_of_runner
from kernel_matrix.store import junit
from kernel_matrix.vendors.machine import detect

FAILS = '<testcase classname="a" name="x"><failure message="bad"/></testcase>'
PASSES = '<testcase classname="a" name="x"/>'
PYTEST = '<testsuites name="pytest tests"><testsuite name="pytest" hostname="vm" tests="3" failures="{}">{}</testsuite>'


def ends(tmp_path: Path, content: str) -> dict[str, str]:
    """Return how each test of a file ended; ``flaky`` if an earlier attempt failed."""
    (tmp_path / "a.xml").write_text(content)
    return {one.case: "flaky" if one.attempts and one.outcome == "pass" else one.outcome
            for one in junit.read(tmp_path / "a.xml")}  # fmt: skip


def of_suite(*tests: str, **attributes: str) -> str:
    given = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<testsuite name="s"{given}>{"".join(tests)}</testsuite>'


@pytest.mark.parametrize(
    ("content", "end"),
    [
        # Several tests of one name: the worst counts.
        (of_suite(FAILS, PASSES), "fail"),
        (of_suite(PASSES, FAILS, PASSES, PASSES, tests="4", failures="1"), "fail"),  # doctest's subcases
        (of_suite(PASSES.replace("/>", "><error/></testcase>"), PASSES), "error"),
        (of_suite(PASSES.replace("/>", "><skipped message='no GPU'/></testcase>"), PASSES), "unavailable"),
        (of_suite(FAILS.replace(">", ' retries="3">', 1), PASSES.replace("/", ' retries="3"/')), "fail"),  # of all
        (of_suite(PASSES, PASSES), "pass"),
        # The file says that it is one test, run again.
        (of_suite(FAILS, PASSES.replace("/", ' retry="1"/')), "flaky"),
        (of_suite(FAILS.replace(">", ' attempt="1">', 1), PASSES.replace("/", ' attempt="2"/')), "flaky"),
        (of_suite(PASSES.replace("/", ' attempt_number="2"/'), FAILS), "flaky"),  # in the other order
        (of_suite(FAILS.replace("<failure", '<properties><property name="rerun" value="0"/></properties><failure'),
                  '<testcase classname="a" name="x"><properties><property name="rerun" value="1"/></properties>'
                  "</testcase>"), "flaky"),
        (of_suite(PASSES.replace("/", ' attempt="1"/'), FAILS.replace(">", ' attempt="2">', 1)), "fail"),
        (of_suite('<testcase classname="a" name="x"><flakyFailure message="1st"/></testcase>'), "flaky"),
        (of_suite('<testcase classname="a" name="x"><flakyError message="1st"/></testcase>'), "flaky"),
        (of_suite('<testcase classname="a" name="x"><failure/><rerunFailure/></testcase>'), "fail"),
        (of_suite('<testcase classname="a" name="x"><rerunFailure message="again"/></testcase>'), "fail"),
        (of_suite('<testcase classname="a" name="x"><rerunError message="again"/></testcase>'), "error"),
        # pytest's plugins for reruns write an attempt that failed like a test that passed.
        (PYTEST.format(1, PASSES * 2 + FAILS) + "</testsuites>", "fail"),
        (PYTEST.format(0, PASSES * 3) + "</testsuites>", "flaky"),
    ],
)  # fmt: skip
def test_a_failure_counts_unless_the_file_says_that_the_test_was_run_again(tmp_path, content, end):
    assert ends(tmp_path, content) == {"a/x": end}


def test_results_of_one_name_say_how_many_they_are_and_keep_all_words(tmp_path):
    failing = '<testcase classname="a" name="x"><failure message="{}">text {}</failure></testcase>'
    (tmp_path / "a.xml").write_text(of_suite(PASSES, failing.format("one", 1), failing.format("two", 2)))
    [record] = junit.read(tmp_path / "a.xml")
    assert record.message == "3 results have this name (2 fail, 1 pass): one; two"
    assert record.detail == "text 1\ntext 2"


def test_tests_of_one_name_in_two_suites_are_two(tmp_path):
    (tmp_path / "a.xml").write_text(
        f'<testsuites>{of_suite(FAILS)}{of_suite(PASSES)}<testsuite name="t">{of_suite(FAILS)}{of_suite(PASSES)}'
        "</testsuite></testsuites>"
    )
    assert [record.outcome for record in junit.read(tmp_path / "a.xml")] == ["fail", "pass", "fail", "pass"]


@pytest.mark.parametrize(
    ("content", "end"),
    [
        ('<testcase name="x" classname="a"{}><skipped message="Unable to find executable"/></testcase>', "error"),
        ('<testcase name="x" classname="a"{}><skipped message="Fixture dependency failed"/></testcase>', "error"),
        ('<testcase name="x" classname="a"{}><skipped message="Required Files Missing"/></testcase>', "error"),
        ('<testcase name="x" classname="a"{}><skipped>Timeout</skipped></testcase>', "error"),
        ('<testcase name="x" classname="a"{}><skipped message="SKIP_RETURN_CODE=77"/></testcase>', "unavailable"),
        ('<testcase name="x" classname="a"{}><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>',
         "unavailable"),
        ('<testcase name="x" classname="a"{}/>', "unavailable"),
    ],
)  # fmt: skip
def test_what_ctest_could_not_run_is_an_error_and_what_asked_for_its_skip_is_none(tmp_path, content, end):
    assert ends(tmp_path, of_suite(content.format(' status="notrun"'), disabled="0")) == {"a/x": end}


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ('<skipped message="no such device"/>', "unavailable"),
        ('<skipped type="pytest.xfail" message="reason: the kernel crashed"/>', "unavailable"),
        ('<skipped type="pytest.skip" message="its server timed out"/>', "unavailable"),  # the suite says so itself
        ('<skipped message="worker process crashed"/>', "error"),
        ("<skipped/><system-out>chain:\n- reason: 'dependency test case \"a\" has failed'</system-out>", "error"),
        ("<skipped/><system-out>chain:\n- reason: 'dependency test case \"a\" was skipped'</system-out>",
         "unavailable"),
        ("<skipped/><system-out>the connection timed out</system-out>", "unavailable"),
        ('<skipped message="TEST_CASE tagged with !mayfail"/><failure message="1 == 2"/>', "unavailable"),  # Catch2
        ('<skipped message="no GPU"/><failure message="1 == 2"/>', "fail"),
    ],
)  # fmt: skip
def test_a_skip_is_the_word_of_the_test_or_of_its_runner(tmp_path, reason, end):
    assert ends(tmp_path, of_suite(f'<testcase name="x" classname="a">{reason}</testcase>')) == {"a/x": end}


def test_a_failure_that_an_attribute_alone_says_is_counted(tmp_path):
    failing = '<testcase classname="a" name="x" status="fail"/>'
    assert ends(tmp_path, of_suite(failing, tests="1", failures="1", disabled="0")) == {"a/x": "fail"}


@pytest.mark.parametrize(
    ("attributes", "end"),
    [
        ('status="run"', "pass"), ('status="run" result="completed"', "pass"), ('status="passed"', "pass"),
        ('status="notrun" result="suppressed"', "unavailable"), ('status="Skipped"', "unavailable"),
        ('status="failed"', "fail"), ('result="FAILURE"', "fail"), ('status="not ok"', "fail"),
        ('status="crashed"', "error"), ('result="timed_out"', "error"), ('status="run" result="interrupted"', "error"),
    ],
)  # fmt: skip
def test_an_attribute_says_how_a_test_ended_where_no_element_does(tmp_path, attributes, end):
    assert ends(tmp_path, of_suite(f'<testcase name="x" classname="a" {attributes}/>')) == {"a/x": end}


OF_THE_RUNNER = (
    "not built", "Test executable was not built", "the target gemm_test could not be built", "Build failed",
    "compilation of gemm.cu failed", "failed to compile", "it does not compile", "Unable to find executable: /a/b",
    "could not find the test program", "cannot execute the binary", "executable not found", "command not found: a",
    "test_gemm: No such file or directory", "Unable to start the process", "failed to start", "Missing Configuration",
    "Failed test dependencies: setup", "dependency test suite \"a\" has failed", "prerequisite failed",
    "fixture setup failed", "the earlier test crashed", "skipped after previous failure",
    "not run due to an earlier error", "not executed because the build was cancelled", "fail-fast", "Bail out!",
    "cancelled", "timed out after 60 s", "Timeout", "timeout of 30 s", "exceeded its time limit", "Time limit reached",
    "timeout for the test unit is exceeded", "the worker crashed", "Crash", "process was killed", "Segmentation fault",
    "SIGSEGV", "Subprocess aborted", "core dumped", "killed by signal 9", "the host was lost", "node died",
    "the test exceeded the timeout of 60 s", "it ran over its time limit", "over time limit",
    "it went beyond the timeout", "timeout reached", "reached the time limit of 60 s",
    "compiler error", "linker error: undefined symbol", "could not compile gemm.cu", "build failure",
    "no such executable",
    "exec format error", "the process never started", "depends on setup, which failed", "blocked by failing test a",
    "not started", "deadline exceeded", "no output for 600 s", "the test hung", "process exited unexpectedly",
    "lost connection to worker gw1", "OOM killed", "exited with code 139", "non-zero exit", "test killed",
)  # fmt: skip
OF_THE_TEST = (
    "", "no GPU", "no CUDA device found", "needs sm_90", "CUDA is not available", "requires Triton 3.4",
    "could not import 'cupy': No module named 'cupy'", "PyTorch was not built with CUDA", "not compiled with CUDA",
    "this program was not built with NCCL", "timeout tests are off", "slow: needs --runslow", "crashes on sm_70",
    "segfaults with torch 2.9", "needs 2 GPUs, and one was found", "no device", "not supported on this platform",
    "disabled", "set RUN_SLOW=1 to run it", "the library has no fp8", "cannot find a GPU", "too slow on a CPU",
    "is flaky", "hung on CI before (issue 12)", "no compiler", "the build has no CUDA", "needs a linker that is newer",
    "depends on CUDA", "blocked by issue 12", "exit code is checked on Linux alone",
    "this test takes over the timeout of CI machines, set RUN_SLOW=1", "takes longer than the time limit of CI",
    "this shape exceeds the time limit of hosted machines", "would exceed the timeout here, see issue 12",
    "runs beyond the timeout of a CPU", "needs over the time limit of 60 s", "reaches the timeout on a CPU",
    "not implemented", "only on Windows", "dependency test case \"a\" was skipped", "skipped by the user",
)  # fmt: skip


def test_the_reasons_of_runners_are_known_and_those_of_tests_are_their_own():
    assert [reason for reason in OF_THE_RUNNER if not is_of_runner(reason)] == []
    assert [reason for reason in OF_THE_TEST if is_of_runner(reason)] == []


TEN = "".join(f'<testcase classname="a" name="t{number}"/>' for number in range(10))


@pytest.mark.parametrize(
    ("content", "lies"),
    [
        (f'<testsuite name="s" tests="76">{TEN}</testsuite>', "it has 76 tests, and the file has 10 of them"),
        (f'<testsuites tests="76"><testsuite name="s" tests="10">{TEN}</testsuite></testsuites>', "it has 76 tests"),
        (f'<testsuites><testsuite name="o" tests="11"><testsuite name="s">{TEN}</testsuite></testsuite></testsuites>',
         "it has 11 tests"),
        ('<testsuite name="s" tests="5" disabled="0"><testcase name="a" status="run"/></testsuite>', "it has 5 tests"),
        ('<testsuite name="s" tests="1"/>', "it has 1 test, and the file has 0 of them"),
        (f'<testsuite name="s" tests="20" skipped="5">{TEN}</testsuite>', "it has 20 tests"),
        (f'<testsuite name="s" tests="20" failures="1">{TEN}</testsuite>',
         "1 of its tests failed, and the file has 0 of them and it has 20 tests"),
        (f'<testsuites errors="2"><testsuite name="s">{TEN}</testsuite></testsuites>', "2 of its tests failed"),
    ],
)  # fmt: skip
def test_numbers_that_no_test_bears_out_are_an_error_with_both_numbers(tmp_path, content, lies):
    (tmp_path / "a.xml").write_text(content)
    [error] = [record for record in junit.read(tmp_path / "a.xml") if record.outcome != "pass"]
    assert (error.case.rpartition("/")[2], error.outcome) == ("(the suite itself)", "error")
    assert lies in error.message


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (f'<testsuite name="s" tests="10">{TEN}</testsuite>', False),
        (f'<testsuite name="s" tests="12" skipped="2">{TEN}</testsuite>', False),  # cargo lists no test that it ignores
        (f'<testsuite name="pytest" hostname="vm" tests="31">{TEN}</testsuite>', True),  # subtests that passed
        (f'<testsuites name="pytest tests"><testsuite hostname="v" tests="31">{TEN}</testsuite></testsuites>', True),
        (f'<testsuite name="exe" hostname="tbd" tests="2281">{TEN}</testsuite>', True),  # Catch2's assertions
        ('<testsuite name="e" tests="9"><testcase classname="a.cpp" name="x" status="run"/></testsuite>', True),
    ],
)  # fmt: skip
def test_a_tool_that_counts_more_than_its_tests_is_no_error_and_is_named(tmp_path, content, named):
    (tmp_path / "a.xml").write_text(content)
    tests, notes = junit.read_tests(tmp_path / "a.xml")
    assert {record.outcome for _, record in tests} == {"pass"}
    assert ["by its own word it has" in note for note in notes] == [True] * named


def test_a_number_below_the_tests_of_the_file_is_named(tmp_path):
    (tmp_path / "a.xml").write_text(f'<testsuite name="s" tests="4">{TEN}</testsuite>')
    assert junit.read_tests(tmp_path / "a.xml")[1] == ["s: by its own word it counts 4 tests, and the file has 10."]


def test_a_test_that_was_not_run_for_a_reason_that_it_printed_alone_is_an_error(tmp_path):
    test = (
        '<testcase classname="a" name="x" status="notrun"><skipped message=""/><system-out>{}</system-out></testcase>'
    )
    assert ends(tmp_path, of_suite(test.format("Unable to find executable: build/x"))) == {"a/x": "error"}
    assert ends(tmp_path, of_suite(test.format(""))) == {"a/x": "unavailable"}


def test_a_file_may_be_packed(tmp_path):
    path = tmp_path / "a.xml.gz"
    path.write_bytes(gzip.compress(of_suite(FAILS).encode()))
    assert [record.outcome for record in junit.read(path)] == ["fail"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(junit.BrokenResultError, match=r"a\.xml\.gz: not whole JUnit XML"):
        junit.read(path)
    (tmp_path / "a.xml").write_bytes(gzip.compress(b" " * (junit.Bounds().file_bytes + 1)))
    with pytest.raises(junit.RefusedError, match="unpacked"):
        junit.read(tmp_path / "a.xml")


@pytest.mark.parametrize(
    ("content", "known"),
    [
        ("TAP version 13\n1..2\nok 1 - a\n", "TAP"), ("1..2\nok 1 - a\n", "TAP"), ("not ok 1 - a\n", "TAP"),
        ('{"numTotalTests": 2}', "JSON of Jest"), ('{"tests": []}', "JSON"), ('[{"a": 1}]', "JSON"),
        ('{\n  "tests": 1, "testsuites": []}', "JSON of GoogleTest"), ('{"Action":"pass"}\n', "JSON of go test"),
        ('{ "type": "suite", "event": "started" }\n', "JSON of cargo test"), ('{"__version__": [0, 1]}', "JSON of lit"),
        ('{"created": 1.0, "tests": [{"nodeid": "a"}]}', "JSON of pytest"),
        ("\ufeff<?xml version='1.0'?>\n<!-- a -->\n<TestRun id='1'/>", "TRX of .NET"),
        ("<assemblies/>", "XML of xUnit.net"), ("<test-run/>", "XML of NUnit"), ("<Catch2TestRun/>", "XML of Catch2"),
        ("<doctest/>", "XML of doctest"), ("<TestLog/>", "XML of Boost.Test"), ("<Site/>", "XML of CTest for CDash"),
        ("<html><body/></html>", "a page of HTML"), ("<coverage/>", "a report of coverage"),
        ("PK\x03\x04", "a zip archive"), ("PAR1", "a table of Parquet"), ("kernel: 1 passed", "no XML"),
        ("===== test session starts =====", "what pytest prints"), ("Test project /a\n", "what CTest prints"),
        ("Running main()\n[==========] Running 3 tests", "what GoogleTest prints"),
        ("\nrunning 2 tests\ntest a ... ok\n", "what cargo test prints"),
    ],
)  # fmt: skip
def test_a_file_in_another_format_says_which_it_is_and_what_writes_junit_xml(tmp_path, content, known):
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(junit.OtherFormatError, match=rf"a\.xml: this is {known}, and no JUnit XML: \w+"):
        junit.read(tmp_path / "a.xml")


@pytest.mark.parametrize(
    "said",
    [b"\x1b[31mbad\x1b[0m", b"&#27;[31mbad&#x1b;[0m", b"#x1B[1;31mbad#x1B[0m", b"\xef\xbf\xbd[31mbad\xef\xbf\xbd[m"],
)
def test_the_colours_of_a_tool_hide_no_result_and_are_not_shown(tmp_path, said):
    failing = FAILS.encode().replace(b"bad", said).replace(b"/></testcase>", b">" + said + b"</failure></testcase>")
    (tmp_path / "a.xml").write_bytes(
        b'<?xml version="1.0" encoding="utf-8"?><testsuite name="s">' + failing + b"</testsuite>"
    )
    [record] = junit.read(tmp_path / "a.xml")
    assert (record.outcome, record.message, record.detail) == ("fail", "bad", "bad")


def test_characters_that_no_xml_has_are_replaced_and_a_file_of_ours_has_none(tmp_path):
    for said in (b"\x01", b"\xe9", b"&#0;", b"&#x1F;", b"&#11;"):
        (tmp_path / "a.xml").write_bytes(of_suite(FAILS).encode().replace(b"bad", said + b"bad"))
        assert [record.message for record in junit.read(tmp_path / "a.xml")] == ["\N{REPLACEMENT CHARACTER}bad"]
    (tmp_path / "a.xml").write_bytes(
        b'<testsuites name="kernel-matrix">' + of_suite(FAILS).encode().replace(b"bad", b"\x01")
    )
    with pytest.raises(junit.BrokenResultError, match="not whole JUnit XML"):
        junit.read(tmp_path / "a.xml")


@pytest.mark.parametrize("content", ["", " \n", "<testsuite><testcase", "<testsuites", "\ufeff<testsuite"])
def test_a_part_of_junit_xml_is_no_other_format(tmp_path, content):
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(junit.BrokenResultError, match="not whole JUnit XML") as error:
        junit.read(tmp_path / "a.xml")
    assert not isinstance(error.value, junit.OtherFormatError)


def test_what_lies_beside_results_in_a_folder_is_named_and_other_results_are_refused(tmp_path):
    (tmp_path / "a.xml").write_text(of_suite(PASSES))
    (tmp_path / "coverage.xml").write_text("<coverage/>")
    (tmp_path / "pom.xml").write_text("<project/>")
    tests, notes = read_all(files_of([tmp_path]), are_attempts=False)
    assert [record.outcome for _, record in tests] == ["pass"]
    assert [note.partition(": not taken: ")[0] for note in notes] == [f"{tmp_path}/coverage.xml", f"{tmp_path}/pom.xml"]
    assert "this is no JUnit XML, as it begins with the element 'project': let the tool" in notes[1]
    for name, content in (("coverage.xml", "<coverage/>"), ("b.xml", "<TestRun/>")):
        (tmp_path / name).write_text(content)
        named = [tmp_path / name] if name == "coverage.xml" else [tmp_path]
        with pytest.raises(UserError, match="and no JUnit XML"):
            read_all(files_of(named), are_attempts=False)
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "coverage.xml").write_text("<coverage/>")
    with pytest.raises(UserError, match="none of them is JUnit XML with tests"):
        read_all(files_of([tmp_path / "only"]), are_attempts=False)


def test_the_attempts_that_bazel_keeps_in_files_are_one_test(tmp_path):
    last, earlier = tmp_path / "t" / "test.xml", tmp_path / "t" / "test_attempts" / "attempt_1.xml"
    earlier.parent.mkdir(parents=True)
    last.write_text(of_suite(PASSES))
    earlier.write_text(of_suite(FAILS))
    tests, _ = read_all(files_of([tmp_path]), are_attempts=False)
    assert [(record.outcome, record.attempts) for _, record in tests] == [("pass", ("fail",))]
    tests, _ = read_all(files_of([earlier]), are_attempts=False)
    assert [record.outcome for _, record in tests] == ["fail"]


@pytest.mark.slow
def test_files_of_strangers_are_red_where_they_failed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    target = detect().devices[0].targets[-1]
    project = Suite.made(tmp_path / "project", {}, MATRIX.replace("[any]", f"[{target}]"))
    results = tmp_path / "files"
    results.mkdir()
    (results / "first.xml").write_text(of_suite(FAILS, PASSES, tests="3"))
    (results / "second.xml.gz").write_bytes(gzip.compress(PYTEST.format(0, TEN).encode() + b"</testsuites>"))
    words = ["--matrix", str(project.root / "matrix.yaml"), "--platform", "here", "--toolchain", "plain"]

    def states(*more: str) -> dict[str, int]:
        assert main(["ci", "take-junit", *words, *more]) == 0
        main(["report", "--matrix", str(project.root / "matrix.yaml")])
        document = json.loads((project.root / "build" / "site" / "compat.json").read_text())
        counts: dict[str, int] = document["run"]["cases_by_state"]
        return counts

    taken = states(str(results))
    assert (taken["fail"], taken["error"], taken.get("flaky", 0)) == (1, 1, 0)
    taken = states("--reruns", str(results))
    assert (taken.get("fail", 0), taken["flaky"]) == (0, 1)
    capsys.readouterr()
    for wrong, said in ((project.root / "tests", "no file of JUnit XML in this folder"),
                        (tmp_path / "absent.xml", "absent.xml")):  # fmt: skip
        assert main(["ci", "take-junit", *words, str(wrong)]) == 2
        assert said in capsys.readouterr().err
