"""Files that are read without an XML parser give what the XML parser gives, and any other file is left to it."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import example, given
from hypothesis import strategies as st

from kernel_matrix.results import junit
from kernel_matrix.results.collect import collect
from kernel_matrix.results.columns import own_form
from kernel_matrix.results.columns.batch import of_records
from kernel_matrix.results.columns.database import database
from kernel_matrix.results.columns.load import foreign, load
from kernel_matrix.results.columns.own_form import OtherFormError
from kernel_matrix.results.columns.parse import parse_all, read
from kernel_matrix.results.columns.records import Jobs, records_of
from kernel_matrix.results.columns.sql import rows
from kernel_matrix.results.foreign import foreign_records
from kernel_matrix.results.junit import BrokenResultError
from kernel_matrix.results.record import Record
from kernel_matrix.results.validation import Bounds, RefusedError, check_content, check_figures

FOREIGN = sorted((ROOT / "tests" / "kernel_matrix" / "foreign").glob("*.xml"))
JOB = {"job": "here.one", "device": "", "commit": "abc", "version.torch": "2.13.0+cpu"}
GOOD = Record(
    "here/any/one/scale.forward/tokens7", "pass", "run", metrics={"elements": 8.0, "out.max_abs": 1e-7}, job=JOB
)

# Characters of every kind that XML treats in its own way, and others.
text = st.text(
    st.one_of(st.sampled_from("<>&\"'\t\n\r ]a;#x0\x00\x1b\x7f\x85 \ufffe\ufffd"), st.characters(codec="utf-8"))
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.sampled_from("abc._@&<\"'é "), min_size=1, max_size=12)
records = st.builds(
    Record,
    case=names,
    outcome=st.sampled_from(["pass", "fail", "error", "unavailable", "excluded", "missing"]),
    action=st.sampled_from(["", "run", "compile", "emulate", "dance"]),
    stage=st.sampled_from(["", "lower", "<&>"]),
    message=text,
    detail=text,
    seconds=st.floats(0, 1e9),
    attempts=st.lists(st.sampled_from(["error", "fail:launch"]), max_size=2).map(tuple),
    metrics=st.dictionaries(names, st.floats(), max_size=6),
    facts=st.dictionaries(names, text, max_size=3),
    job=st.just(JOB),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


def by_the_parser(path: Path):
    """Return what the way over records gives: tables, or the sentence that refuses the file."""
    try:
        check_content(path, Bounds())
        found = junit.read(path)
        check_figures(found)
    except (RefusedError, BrokenResultError) as error:
        return str(error)
    return of_records(found)


def both(path: Path):
    try:
        found = read(path, path.read_bytes(), Bounds())
    except (RefusedError, BrokenResultError) as error:
        found = str(error)
    return found, by_the_parser(path)


def same(found, expected):
    if isinstance(expected, str) or isinstance(found, str):
        return found == expected
    return repr(tables_of(found)) == repr(tables_of(expected))


def tables_of(batch):
    return [table.to_pylist() for table in (batch.jobs, batch.cases, batch.outputs)]


@pytest.mark.slow
@given(of_file=st.lists(records, max_size=4), job=st.dictionaries(names, text, max_size=4))
def test_what_the_harness_writes_is_read_alike(folder, of_file, job):
    path = folder / "here.one.xml"
    junit.write(path, "here.one", of_file, {**JOB, **job})
    found, expected = both(path)
    assert same(found, expected)


def test_what_the_harness_writes_needs_no_parser(folder):
    path = folder / "here.one.xml"
    wrong = Record(GOOD.case + "b", "error", "compile", "lower", 'a "<b>"\n\tc', "Trace\n  & more", job=JOB)
    junit.write(path, "here.one", [GOOD, wrong], JOB)
    assert own_form.read(path.read_bytes(), Bounds()).cases.num_rows == 2


PIECES = [
    *("<", ">", "&", '"', "&#13;", "&#0;", "&x;", "]]>", "<!-- -->", "<![CDATA[x]]>", "\r\n", "\ufeff", "</testcase>"),
    *("nan", "inf", "1_0", '<property name="metric.a" value="1"/>', '<failure message="m"/>', "<!DOCTYPE a>", "<?pi?>"),
    *("fail", "\ud83d"),
]


@given(place=st.floats(0, 1), length=st.integers(0, 30), new=st.one_of(text, st.sampled_from(PIECES)))
@example(place=0.078125, length=0, new="&")  # in the name of the suite
@example(place=0.671875, length=0, new="&")  # in the class of a test case
@example(place=0.939, length=0, new="&")  # in the type of an error
@example(place=0.224609375, length=1, new="")  # in the attribute that names a property of the suite
def test_a_file_that_was_changed_anywhere_is_read_alike(folder, place, length, new):
    path = folder / "here.one.xml"
    wrong = Record(GOOD.case + "b", "error", "compile", "lower", 'a "<b>"\n\tc', "Trace\n  & more", job=JOB)
    junit.write(path, "here.one", [GOOD, wrong], JOB)
    whole = path.read_bytes()
    start = int(place * len(whole))
    path.write_bytes(whole[:start] + new.encode(errors="surrogatepass") + whole[start + length :])
    found, expected = both(path)
    assert same(found, expected)


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_the_files_of_other_tools_are_read_alike(path):
    found, expected = both(path)
    assert same(found, expected)
    with pytest.raises(OtherFormError):
        own_form.read(path.read_bytes(), Bounds())


@pytest.mark.parametrize(
    "bounds",
    [
        Bounds(text=30), Bounds(cases=1), Bounds(properties=4), Bounds(depth=4), Bounds(file_bytes=100),
        Bounds(all_bytes=100), Bounds(files=0),
    ],
    ids=repr,
)  # fmt: skip
def test_a_file_outside_the_bounds_is_refused_with_the_same_sentence(tmp_path, bounds):
    junit.write(tmp_path / "here.one.xml", "here.one", [GOOD, Record(GOOD.case + "b", "pass", job=JOB)], JOB)
    collected = collect([tmp_path], bounds=bounds)
    with database() as connection:
        loaded = load(connection, [tmp_path], bounds=bounds)
    assert collected.broken
    assert (loaded.files, loaded.broken, loaded.refused) == (collected.files, collected.broken, collected.refused)


@pytest.mark.parametrize(
    "content", ["", "<a/>", "<!DOCTYPE a><testsuites/>", "<testsuites><testsuite><testcase", "\x00"]
)
def test_a_file_that_is_no_result_is_named_with_the_same_sentence(tmp_path, content):
    (tmp_path / "here.one.xml").write_text(content)
    (tmp_path / "a name.xml").write_text(content)
    collected = collect([tmp_path])
    with database() as connection:
        loaded = load(connection, [tmp_path])
    assert collected.broken
    assert (loaded.files, loaded.broken, loaded.refused) == (collected.files, collected.broken, collected.refused)


def test_records_come_back_from_the_tables_as_they_were(folder):
    path = folder / "here.one.xml"
    junit.write(path, "here.one", [GOOD], JOB)
    with database() as connection:
        load(connection, [path])
        numbers = [number for (number,) in rows(connection, "SELECT record FROM cases")]
        assert list(records_of(connection, numbers, Jobs(connection)).values()) == [GOOD]


def test_the_results_of_other_tools_are_told_by_file():
    collected = collect([FOREIGN[0].parent])
    with database() as connection:
        load(connection, [FOREIGN[0].parent])
        found = foreign(connection)
    assert {name: [(r.case, r.outcome) for r in of_file] for name, of_file in found.items()} == {
        name: [(r.case, r.outcome) for r in foreign_records(of_file)] for name, of_file in collected.foreign.items()
    }


@pytest.mark.slow
def test_several_processes_read_files_in_their_order(tmp_path):
    paths = []
    for number in range(40):
        paths.append(tmp_path / f"here.{number}.xml")
        junit.write(paths[-1], "here.one", [GOOD], {**JOB, "job": f"here.{number}"})
    found = [path for parsed in parse_all(paths, Bounds(), processes=2, few_bytes=0) for path in parsed.paths]
    assert found == paths
