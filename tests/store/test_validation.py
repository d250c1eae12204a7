"""Results of other machines are data: a dishonest result is refused with a reason, and the others count."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import pytest

from kernel_matrix.store import junit
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import STREAMED, Asked, Bounds

GOOD = Record("here/any/good/double.forward/tokens1", "pass", "run", metrics={"elements": 8.0})


@pytest.fixture
def results(tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    junit.write(folder / "here.good.xml", "here.good", [GOOD], {})
    return folder


def one_case(inside: str = "", name: str = "x") -> str:
    return f'<testcase name="{name}" classname="c">{inside}</testcase>'


def suites(inside: str, before: str = "") -> str:
    """Return a file as kernel-matrix writes it."""
    suite = f"<testsuites name='kernel-matrix'><testsuite name='s'>{inside}</testsuite></testsuites>"
    return f"<?xml version='1.0'?>{before}{suite}"


SMALL = Bounds(files=3, file_bytes=5000, all_bytes=9000, cases=5, text=300, depth=6, properties=4)
ENTITIES = '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
OUTSIDE = '<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]>'


HOSTILE = [
    (suites(one_case("&b;"), ENTITIES), "declares a document type"),
    (suites(one_case("&a;"), OUTSIDE), "declares a document type"),
    (suites(one_case("&a;"), OUTSIDE).encode("utf-16"), "declares a document type"),
    (suites(one_case("<error>" + "x" * 400 + "</error>")), "a text is longer than 300"),
    (suites(one_case(name="x" * 400)), "a text is longer than 300"),
    (suites(one_case() * 6), "more than 5 cases"),
    (
        suites(
            one_case("<properties>" + "".join(f'<property name="{n}" value="b"/>' for n in range(5)) + "</properties>")
        ),
        "more than 4 prop",
    ),
    (suites(one_case("<a><a><a><a><a/></a></a></a></a>")), "more than 6 deep"),
    (suites(" " * 6000), "bytes, and 5000 is the most"),
]


def test_xml_that_no_job_writes_is_refused_and_the_rest_is_read(results):
    for number, (text, _) in enumerate(HOSTILE):
        (results / f"hostile-{number}.xml").write_bytes(text if isinstance(text, bytes) else text.encode())
    found = collect([results], bounds=replace(SMALL, files=len(HOSTILE) + 1, all_bytes=90_000))
    assert [record.case for record in found.records] == [GOOD.case]
    assert len(found.broken) == len(HOSTILE)
    for number, (_, words) in enumerate(HOSTILE):
        [sentence] = [sentence for sentence in found.broken if f"hostile-{number}.xml: refused: " in sentence]
        assert words in sentence
        assert words in found.refused[f"hostile-{number}"]


def test_links_devices_and_names_with_tricks_are_refused(results, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    junit.write(tmp_path / "elsewhere" / "other.xml", "x", [replace(GOOD, case="a/b/c/d/e")], {})
    (results / "link.xml").symlink_to(tmp_path / "elsewhere" / "other.xml")
    (results / "folder").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(results / "pipe.xml")
    (results / "a\n::error::b.xml").write_text(suites(one_case()))
    found = collect([results])
    assert [record.case for record in found.records] == [GOOD.case]
    said = "\n".join(found.broken)
    for words in ("link.xml: refused: this is a symbolic link", "pipe.xml: refused: this is no plain file",
                  "a?::error::b.xml: refused: a result's name has only"):  # fmt: skip
        assert words in said


def test_many_files_and_many_bytes_are_refused(results):
    for number in range(5):
        (results / f"many{number}.xml").write_text(suites(one_case(name=f"n{number}")))
    assert "there are more than 3 files" in "\n".join(collect([results], bounds=SMALL).broken)
    for number in range(2):
        (results / f"many{number}.xml").write_text(suites(" " * 4500))
    assert "all files together are larger" in "\n".join(collect([results], bounds=SMALL).broken)


@pytest.mark.parametrize(
    ("stem", "records", "may_run", "words"),
    [
        ("here.other", [GOOD], True, "the plan has no job of this name"),
        ("here.good", [replace(GOOD, case="room/any/good/double.forward/tokens1")], True, "was not asked for"),
        ("here.good", [GOOD, GOOD], True, "twice"),
        ("here.good", [GOOD], False, "ran, on a machine without that hardware"),
    ],
)
def test_a_job_speaks_of_its_own_cases_only(tmp_path, stem, records, may_run, words):
    junit.write(tmp_path / f"{stem}.xml", "x", records, {})
    found = collect([tmp_path], {"here.good": Asked("here.good", {GOOD.case}, may_run)})
    assert found.records == ()
    assert words in found.broken[0]


def test_an_artifact_speaks_for_its_own_row_only(results):
    results.rename(results.parent / "results-there.good")
    asked = {"here.good": Asked("here.good", {GOOD.case}, True)}
    assert "came from another row than here.good" in collect([results.parent], asked).broken[0]
    (results.parent / "results-there.good").rename(results.parent / "results-here.good")
    assert len(collect([results.parent], asked).records) == 1


FIGURES = ("metric.time.ratio", "metric.artifact.bytes", "metric.elements", "metric.out.nan")


def test_a_time_or_size_that_is_not_finite_is_refused_and_the_rest_is_read(results):
    edited = [*product(FIGURES, ("1e309", "-inf", "nan"))]
    for number, (figure, value) in enumerate(edited):
        inside = f'<properties><property name="{figure}" value="{value}"/></properties>'
        (results / f"edited-{number}.xml").write_text(suites(one_case(inside)))
    collected = collect([results])
    assert [record.case for record in collected.records] == [GOOD.case]
    for number, (figure, _) in enumerate(edited):
        assert f"the figure {figure.removeprefix('metric.')!r} of 'c/x' is" in collected.refused[f"edited-{number}"]


def test_an_error_that_is_not_finite_is_a_result(results):
    wrong = replace(GOOD, outcome="fail", metrics={"elements": 8.0, "out.max_abs": math.inf, "out.rel_fro": math.nan})
    junit.write(results / "wrong.xml", "wrong", [wrong], {})
    assert collect([results]).broken == ()


def test_results_that_are_streamed_have_the_bounds_of_each_file_and_more_files():
    each = {name: value for name, value in asdict(STREAMED).items() if name not in ("files", "all_bytes")}
    assert each == {name: value for name, value in asdict(Bounds()).items() if name in each}
    assert STREAMED.all_bytes > 20 * Bounds().all_bytes
    assert STREAMED.files >= 10_000
