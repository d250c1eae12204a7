"""Results are the same after they went through Parquet, and a table that no job writes is refused with a reason."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from common import ROOT, write_results
from hypothesis import given, settings
from hypothesis import strategies as st
from records import BAD, CELL, GOOD, JOB
from records import record_with_sample as with_sample
from together import by_day, first_are_quick

from kernel_matrix.base.errors import UserError
from kernel_matrix.store import apart, checks, journal, junit, names
from kernel_matrix.store import database as sql
from kernel_matrix.store.ahead import checked_ahead
from kernel_matrix.store.database import database
from kernel_matrix.store.load import collect, load
from kernel_matrix.store.names import TABLES, JobFiles
from kernel_matrix.store.record import Outcome, Record, Sample, identity
from kernel_matrix.store.records import Jobs, add_sources, insert_runs, records_of
from kernel_matrix.store.sampled import samples_of
from kernel_matrix.store.schema import SCHEMAS, VERSION, VERSION_KEY
from kernel_matrix.store.validation import Asked, Bounds
from kernel_matrix.store.write import replace as write_instead
from kernel_matrix.store.write import write_all

# What is no character of XML is replaced, and spaces around a detail are left out.
_TEXT = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), min_size=1, max_size=20
)
_NAME = st.text("abcdefgh_.@-0123456789", min_size=1, max_size=12)
_SAMPLE = st.builds(
    Sample,
    st.sampled_from(["fp64", "fp32", "fp16", "bf16"]),
    st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
    st.text("0123456789abcdef", min_size=16, max_size=16),
    st.binary(max_size=64),
)
_RECORD = st.builds(
    Record,
    case=st.one_of(_TEXT, st.builds("a/b/c/{}.{}/{}".format, _NAME, _NAME, _NAME), st.just("probe/lock/family/name")),
    outcome=st.sampled_from(Outcome.__args__),
    action=st.sampled_from(["", "run", "emulate", "compile"]),
    stage=_TEXT,
    message=_TEXT,
    detail=_TEXT.map(str.strip),
    seconds=st.floats(0, 1e9).map(lambda seconds: round(seconds, 4)),
    attempts=st.lists(_TEXT, max_size=3).map(tuple),
    metrics=st.dictionaries(
        st.one_of(_TEXT, st.builds("{}.{}".format, _NAME, st.sampled_from(["max_abs", "elements", "time", "x"])),
                  st.builds("{}.{}".format, st.sampled_from(["artifact", "time", "canary"]), _NAME)),
        st.floats(), max_size=6),
    facts=st.dictionaries(_TEXT, _TEXT, max_size=4),
    samples=st.dictionaries(_NAME, _SAMPLE, max_size=2),
)  # fmt: skip


def as_text(records: list[Record]) -> str:
    """Return all that records say, with NaN equal to itself and metrics in any order."""
    return repr([replace(record, run="", metrics=dict(sorted(record.metrics.items()))) for record in records])


def read(files: JobFiles) -> list[Record]:
    """Return the records of a run that was not checked: a job may say anything."""
    with database() as connection:
        insert_runs(connection, {1: files})
        add_sources(connection, {1: files.path("jobs")})
        numbers = [number for (number,) in sql.rows(connection, "SELECT record FROM cases ORDER BY record")]
        records = records_of(connection, numbers, Jobs(connection, ""))
    samples_by_case = samples_of(files).get(files.run, {})
    return [replace(records[number], samples=samples_by_case.get(records[number].case, {})) for number in numbers]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_results(tmp_path / "results", [GOOD, BAD])
    return tmp_path / "results"


@pytest.mark.slow
@settings(max_examples=25)
@given(
    records=st.lists(_RECORD, min_size=1, max_size=12, unique_by=lambda record: record.case),
    facts=st.dictionaries(_TEXT, _TEXT, max_size=4),
)
def test_any_records_come_back_as_they_went(tmp_path_factory, records, facts):
    job = facts | {"job": "here.good"}
    folder, again = tmp_path_factory.mktemp("tables"), tmp_path_factory.mktemp("again")
    files = write_results(folder, [replace(record, job=job) for record in records])
    back = read(files)
    assert as_text(back) == as_text([replace(record, job=job) for record in records])
    twice = write_results(again, back)
    assert twice.name == files.name
    assert [path.read_bytes() for path in twice.paths] == [path.read_bytes() for path in files.paths]


def test_the_order_of_records_facts_and_metrics_does_not_change_the_identity():
    turned = replace(GOOD, metrics=dict(reversed(GOOD.metrics.items())), job=dict(reversed(JOB.items())))
    assert identity(JOB, [GOOD, BAD]) == identity(turned.job, [BAD, turned])
    assert identity(JOB, [GOOD, BAD]) != identity(JOB, [GOOD, replace(BAD, seconds=2.1)])
    assert identity(JOB, [GOOD, BAD]) != identity({**JOB, "device": "y"}, [GOOD, BAD])


def test_facts_have_columns_of_their_own(folder):
    [files] = names.find(folder)
    [job] = pq.read_table(files.path("jobs")).to_pylist()
    assert {name: job[name] for name in ("job", "device", "commit", "seconds", "lock_sha256", "schema_version")} == {
        "job": "here.good", "device": "x", "commit": "abc", "seconds": 105.6, "lock_sha256": "00ff",
        "schema_version": VERSION}  # fmt: skip
    assert job["started"].isoformat() == "2026-11-22T11:52:42"
    case, _ = pq.read_table(files.path("cases")).to_pylist()
    assert [case[name] for name in ("platform", "target", "toolchain", "op", "direction", "name")] == [
        *("here", "any", "good", "double", "forward", "tokens1-fp32")
    ]
    assert dict(case["figures"]) == {"elements": 8.0, "time.run": 0.5}
    [output] = pq.read_table(files.path("outputs")).to_pylist()
    assert (output["output"], output["max_abs"], output["rel_fro"]) == ("out", 1e-7, None)
    assert dict(output["others"]) == {"unusual": 3.0}


STARTS = {"": None, "yesterday": None, "9" * 400: None, "2026-11-22T13:52:42+02:00": "2026-11-22T11:52:42"}


def test_a_start_that_cannot_be_read_is_null_and_stays_a_fact(tmp_path):
    for number, (started, written) in enumerate(STARTS.items()):
        job = {**JOB, "job": f"here.good-{number}", "started": started}
        [row] = pq.read_table(write_results(tmp_path, [replace(GOOD, job=job)]).path("jobs")).to_pylist()
        assert (row["started"].isoformat() if row["started"] else None) == written
    assert {record.job["started"] for record in collect([tmp_path]).records} == {*STARTS}


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([GOOD, GOOD], "a case twice"),
        ([replace(GOOD, job={})], "no name of a job"),
        ([replace(GOOD, job={"job": "../../etc/passwd"})], "no name of a job"),
        ([replace(GOOD, job={"job": "x" * 300})], "no name of a job"),
    ],
)
def test_records_that_are_not_those_of_one_job_are_not_written(tmp_path, records, words):
    with pytest.raises(ValueError, match=words):
        write_results(tmp_path, records)
    assert list(tmp_path.rglob("*")) == []


def test_the_file_of_the_job_is_written_last_and_no_other_stays_without_it(tmp_path, monkeypatch):
    seen: list[list[str]] = []
    original = pq.ParquetWriter.write_table

    def fail_at_the_job(writer: pq.ParquetWriter, table: pa.Table) -> None:
        if "schema_version" in table.column_names:
            seen.append(sorted(path.parent.name for path in tmp_path.rglob("*.parquet")))
            raise OSError("no room")
        original(writer, table)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail_at_the_job)
    with pytest.raises(OSError, match="no room"):
        write_results(tmp_path, [GOOD, BAD])
    assert seen == [["cases", "outputs", "samples"]]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    monkeypatch.undo()
    write_results(tmp_path, [GOOD, BAD])
    assert len(collect([tmp_path]).records) == 2


def test_a_newer_run_takes_the_place_of_an_older_one_of_the_same_job(folder):
    other = write_results(folder, [replace(GOOD, job={**JOB, "job": "here.good.timed"})])
    newer = names.files_of(write_instead(folder, {**JOB, "started": "2026-11-23T11:52:42Z"}, [GOOD]))
    assert names.find(folder) == sorted([newer, other])
    names.remove(folder, "here.good")
    assert names.find(folder) == [other]


@pytest.mark.slow
def test_samples_come_back_and_are_held_to_their_record(tmp_path):
    good = with_sample()
    write_results(tmp_path / "good", [good])
    assert collect([tmp_path / "good"]).records[0].samples == good.samples
    sample, expected = good.samples["out"], {}
    for number, (changed, words) in enumerate(
        [
            (replace(good, action="compile"), "which did not run"),
            (replace(good, samples={"out": replace(sample, dtype="int8")}), "cannot be used"),
            (replace(good, samples={"out": replace(sample, sha256="x")}), "cannot be used"),
            (replace(good, samples={"out": replace(sample, shape=(3, 3))}), "its shape asks for another number"),
            (replace(good, samples={"out": replace(sample, bits=sample.bits[1:])}), "asks for another number"),
            (replace(good, samples={"out": replace(sample, shape=(50, 50))}), "another number of elements"),
            (replace(good, samples={"a b": sample}), "cannot be used"),
            (replace(good, samples={"out": replace(sample, bits=sample.bits * 9)}), "more than 128 elements"),
        ]
    ):
        job = f"here.bad-{number}"
        write_results(tmp_path / "bad", [replace(changed, job={**JOB, "job": job})])
        expected[job] = words
    collected = collect([tmp_path / "bad"])
    assert collected.records == ()
    assert collected.refused.keys() == expected.keys()
    for job, words in expected.items():
        [sentence] = [sentence for sentence in collected.broken if job in sentence]
        assert words in sentence


# --- Both kinds of files in one folder ---


def as_xml(folder: Path, records: list[Record], stem: str = "here.good") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    junit.write(folder / f"{stem}.xml", stem, records, records[0].job)
    return folder / f"{stem}.xml"


@pytest.mark.slow
def test_a_job_that_is_there_as_xml_and_as_tables_counts_once(tmp_path):
    files = write_results(tmp_path, [with_sample(job=JOB), replace(BAD, message="no")])
    before = collect([tmp_path])
    as_xml(tmp_path, before.records)
    collected = collect([tmp_path])
    assert collected.records == before.records
    assert collected.files == (files.path("jobs"),)
    assert {path.suffix for path in collected.paths} == {".xml", ".parquet"}


@pytest.mark.slow
def test_a_job_that_was_copied_counts_once_in_either_form(tmp_path):
    for name in ("c", "d"):
        write_results(tmp_path / name, [GOOD])
    for name in ("a", "b"):
        as_xml(tmp_path / name, collect([tmp_path / "c"]).records)
    [record] = collect([tmp_path]).records
    assert replace(record, run="") == GOOD
    assert collect([tmp_path / "d", tmp_path / "c"]).records == (record,)
    changed = replace(GOOD, outcome="fail", message="too far")
    as_xml(tmp_path / "e", [changed])
    assert {record.outcome for record in collect([tmp_path]).records} == {"pass", "fail"}


def test_junit_xml_that_claims_the_run_of_another_file_hides_none(tmp_path):
    passed = replace(GOOD, run="0" * 16)
    as_xml(tmp_path / "a", [passed])
    as_xml(tmp_path / "b", [replace(passed, outcome="fail", message="too far")])
    assert sorted(record.outcome for record in collect([tmp_path]).records) == ["fail", "pass"]


def test_several_runs_of_a_job_all_count(tmp_path):
    runs = [[replace(GOOD, job={**JOB, "started": f"2026-11-{day}T00:00:00Z"})] for day in (20, 21)]
    for run in runs:
        write_results(tmp_path, run)
    assert sorted(record.job["started"] for record in collect([tmp_path]).records) == [
        *("2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z")
    ]


def test_results_of_other_tools_with_the_same_tests_all_count_and_a_copy_of_a_file_does_not(tmp_path):
    for name in ("a", "b"):
        junit.write(tmp_path / f"{name}.xml", name, [Record("x/y", "pass")], {})
    shutil.copy(tmp_path / "a.xml", tmp_path / "c.xml")
    assert len(collect([tmp_path]).records) == 2


@pytest.mark.slow
def test_a_site_has_the_results_of_tables_as_junit_xml(tmp_path):
    write_results(tmp_path / "tables", [with_sample(job=JOB)])
    as_xml(tmp_path / "xml", [replace(GOOD, job={**JOB, "job": "here.other"})], "here.other")
    collected = collect([tmp_path / "tables", tmp_path / "xml"])
    junit.write_all(tmp_path / "site.xml", collected.records)
    again = collect([tmp_path / "site.xml"])
    assert again.broken == ()
    assert [replace(r, run="") for r in again.records] == [replace(r, run="", samples={}) for r in collected.records]


def test_a_table_is_named_alone(folder):
    [files] = names.find(folder)
    assert len(collect([files.path("jobs")]).records) == len(collect([files.path("outputs")]).records) == 2


# --- Files of strangers ---


def rewritten(path: Path, change: Callable[[pa.Table], pa.Table], **options: object) -> None:
    """Write a table again after a change, with the metadata of its file."""
    table = change(pq.ParquetFile(path).read())
    metadata = {**(table.schema.metadata or {}), VERSION_KEY: str(VERSION).encode()}
    with pq.ParquetWriter(path, table.schema, store_schema=False, **options) as file:
        file.write_table(table)
        file.add_key_value_metadata(metadata)


def edited(table: str, column: str, change: Callable[[object], object]) -> Callable[[JobFiles], None]:
    """Return what changes the first value of a column."""

    def edit(files: JobFiles) -> None:
        def of(content: pa.Table) -> pa.Table:
            rows = content.to_pylist()
            rows[0][column] = change(rows[0][column])
            schema = pa.schema([field.with_nullable(True) for field in content.schema])
            return pa.Table.from_pylist(rows, schema)

        rewritten(files.path(table), of)

    return edit


def of_type(table: str, column: str, kind: pa.DataType) -> Callable[[JobFiles], None]:
    def edit(files: JobFiles) -> None:
        def of(content: pa.Table) -> pa.Table:
            place = content.column_names.index(column)
            return content.set_column(place, pa.field(column, kind), pa.nulls(content.num_rows, kind))

        rewritten(files.path(table), of)

    return edit


def without(table: str, column: str) -> Callable[[JobFiles], None]:
    return lambda files: rewritten(files.path(table), lambda content: content.drop_columns([column]))


def with_column(table: str, name: str) -> Callable[[JobFiles], None]:
    return lambda files: rewritten(
        files.path(table), lambda content: content.append_column(name, pa.nulls(content.num_rows, pa.float64()))
    )


def rows(table: str, times: int) -> Callable[[JobFiles], None]:
    return lambda files: rewritten(
        files.path(table), lambda content: pa.concat_tables([content] * times or [content.slice(0, 0)])
    )


def cut(table: str, part: float) -> Callable[[JobFiles], None]:
    def edit(files: JobFiles) -> None:
        whole = files.path(table).read_bytes()
        files.path(table).write_bytes(whole[: int(len(whole) * part)])

    return edit


def with_hole(table: str) -> Callable[[JobFiles], None]:
    """Return what overwrites the pages and leaves the end of the file, which says where the pages are."""

    def edit(files: JobFiles) -> None:
        whole = bytearray(files.path(table).read_bytes())
        whole[4:100] = b"\xff" * 96
        files.path(table).write_bytes(whole)

    return edit


def of_version(version: bytes) -> Callable[[JobFiles], None]:
    def edit(files: JobFiles) -> None:
        for table in TABLES:
            content = pq.ParquetFile(files.path(table)).read()
            with pq.ParquetWriter(files.path(table), content.schema, store_schema=False) as file:
                file.write_table(content)
                file.add_key_value_metadata({VERSION_KEY: version})

    return edit


def linked(files: JobFiles) -> None:
    path = files.path("cases")
    path.rename(files.folder.parent / "elsewhere")
    path.symlink_to(files.folder.parent / "elsewhere")


def renamed(name: str) -> Callable[[JobFiles], None]:
    def edit(files: JobFiles) -> None:
        for table in TABLES:
            files.path(table).rename(files.path(table).with_name(f"{name}.parquet"))

    return edit


def figure(name: str, value: object) -> Callable[[object], object]:
    return lambda figures: [(key, value if key == name else old) for key, old in figures]


HOSTILE = [
    (lambda files: files.path("outputs").unlink(), "outputs/", "is absent"),
    (lambda files: files.path("jobs").unlink(), "jobs/", "is absent"),
    (lambda files: files.path("cases").write_bytes(b""), "cases/", "is no whole Parquet file"),
    (lambda files: files.path("cases").write_text("<html>"), "cases/", "is no whole Parquet file"),
    *((cut(table, part), f"{table}/", "is no whole Parquet file") for table in TABLES for part in (0.3, 0.99)),
    (with_hole("cases"), "cannot be read"),
    (with_hole("outputs"), "cannot be read"),
    (linked, "symbolic link"),
    (renamed("here.good"), "a table's name is JOB-IDENTITY.parquet"),
    (renamed("::error::x-0123456789abcdef"), "a table's name is JOB-IDENTITY.parquet"),
    (renamed("here.good-0123456789abcdef"), "it is of another run than its name says"),
    (renamed("here.other-IDENTITY"), "a table's name is JOB-IDENTITY.parquet"),
    (of_version(b"2"), "version '2', and 1 is the one that can be read: a newer kernel-matrix has written it"),
    (of_version(b"\xff\xfe"), "has the schema version"),
    (without("cases", "message"), "cases lacks the column message"),
    (with_column("outputs", "abs_p99"), "outputs has the column abs_p99, which its version 1 does not know"),
    (of_type("cases", "seconds", pa.string()), "cases.seconds is string, and not double"),
    (of_type("outputs", "max_abs", pa.int64()), "outputs.max_abs is int64, and not double"),
    (of_type("cases", "facts", pa.map_(pa.string(), pa.float64())), "cases.facts is map<string, double"),
    (rows("jobs", 2), "jobs has 2 rows, and 1 is the most"),
    (rows("jobs", 0), "jobs: it has no row"),
    (rows("cases", 0), "outputs: it speaks of here/any/good/double.forward/tokens1-fp32, which is no case"),
    (rows("cases", 2), "cases: it speaks of here/any/good/double.forward/tokens", "twice"),
    (rows("outputs", 2), "outputs: it speaks of here/any/good/double.forward/tokens1-fp32 twice"),
    (rows("cases", 60), "cases has 120 rows, and 100 is the most"),
    (edited("jobs", "job", lambda _: "here.other"), "it is of another job than its name says"),
    (edited("jobs", "commit", lambda _: "other"), "the column commit differs from the fact commit"),
    (edited("jobs", "schema_version", lambda _: 7), "it has the schema version 7"),
    (edited("cases", "run", lambda _: "0" * 16), "it is of another run than its name says"),
    (edited("cases", "platform", lambda _: "there"), "differ from its id"),
    (edited("cases", "outcome", lambda _: "green"), "there is no outcome green"),
    (edited("cases", "message", lambda _: None), "message is null"),
    (edited("cases", "message", lambda _: "x" * 400), "a text is longer than 300 characters"),
    (edited("cases", "message", lambda _: "\x1b[2J"), "a text has a control character"),
    (edited("cases", "facts", lambda facts: [*facts, ("k", "\x9b31m")]), "a text has a control character"),
    (edited("jobs", "facts", lambda facts: [*facts, ("k\a", "v")]), "a text has a control character"),
    (edited("cases", "facts", lambda facts: [*facts, ("k", "x" * 400)]), "a text is longer than 300 characters"),
    (edited("cases", "facts", lambda facts: [*facts, ("x" * 400, "v")]), "a text is longer than 300 characters"),
    (edited("cases", "facts", lambda _: [(str(k), "") for k in range(60)]), "facts has more than 50"),
    (edited("cases", "facts", lambda facts: [*facts, ("k", None)]), "facts has a null"),
    (edited("cases", "attempts", lambda _: ["fail", None]), "attempts has a null"),
    (edited("cases", "inputs_sha256", lambda _: "11"), "the column inputs_sha256 differs from the fact"),
    (edited("cases", "seconds", lambda _: math.nan), "the figure 'time' of here/any", "is nan"),
    (edited("cases", "seconds", lambda _: -1.0), "the figure 'time' of here/any", "is -1.0"),
    (edited("jobs", "seconds", lambda _: -1.0), "jobs: its seconds are -1.0"),
    (edited("jobs", "facts", figure("started", "1970-01-01T00:00:00Z")), "it began '1970-01-01T00:00:00Z' by"),
    (edited("cases", "figures", figure("time.run", math.inf)), "the figure 'time.run' of here/any", "is inf"),
    (edited("cases", "figures", lambda old: [*old, ("out.nan", 0.0)]), "a figure of an output stands in figures"),
    (edited("outputs", "elements", lambda _: -math.inf), "the figure 'out.elements' of here/any", "is -inf"),
    (edited("outputs", "case", lambda _: f"{CELL}/tokens3"), "outputs: it speaks of", "/tokens3, which is no case"),
    (edited("outputs", "output", lambda _: "artifact"), "it has an output artifact"),
    (edited("outputs", "others", lambda _: [("nan", 0.0)]), "a figure stands in others"),
    (edited("outputs", "max_abs", lambda _: 0.0), "its content is that of the run", "a file was changed"),
    (edited("cases", "outcome", lambda _: "fail"), "its content is that of the run", "a file was changed"),
]  # fmt: skip
SMALL = Bounds(cases=100, text=300, properties=50)


@pytest.mark.parametrize(
    ("hostile", "ahead"), first_are_quick(1, [(HOSTILE[::8], True), (HOSTILE, False)]), ids=["ahead", "all"]
)
def test_tables_that_no_job_writes_are_refused_each_for_its_own_fault_and_the_rest_is_read(tmp_path, hostile, ahead):
    other = replace(GOOD, case=f"{CELL}/tokens3", job={**JOB, "job": "here.other"})
    write_results(tmp_path / "other", [other])
    for number, (edit, *_) in enumerate(hostile):
        folder = tmp_path / f"{number}." / "results"
        job = {**JOB, "variable.NUMBER": str(number)}
        write_results(folder, [replace(GOOD, job=job), replace(BAD, job=job)])
        [files] = names.find(folder)
        edit(files)
    folders = [*tmp_path.glob("*./results"), tmp_path / "other"]
    with checked_ahead(folders, SMALL) if ahead else nullcontext():  # else each is looked at when it is read
        pass
    collected = collect(folders, bounds=SMALL)
    assert collected.records == (other,)
    assert len(collected.broken) == len(hostile)
    for number, (_, *words) in enumerate(hostile):
        [sentence] = [one for one in collected.broken if f"/{number}./" in one]
        for word in (": refused: ", *words):
            assert word in sentence


@pytest.mark.slow
@pytest.mark.parametrize("harm", by_day(2, ["os.abort()", "bytearray(2**33)", "time.sleep(60)"]))
def test_a_file_that_ends_or_holds_up_its_reader_is_lost_alone(folder, monkeypatch, harm):
    for job in ("here.a", "here.other", "here.z"):
        write_results(folder, [replace(GOOD, job={**JOB, "job": job})])
    line = f"        if 'here.other' in path: import os, time; {harm}\n"
    code = apart._CODE.replace("        fault =", f"{line}        fault =", 1)
    assert line in code
    monkeypatch.setattr(apart, "_CODE", code)
    monkeypatch.setattr(apart, "SECONDS", 3)
    monkeypatch.setattr(apart, "_READER", apart._Reader())
    collected = collect([folder], bounds=SMALL)
    apart._READER.end()
    assert sorted({record.job["job"] for record in collected.records}) == ["here.a", "here.good", "here.z"]
    [sentence] = collected.broken
    assert "here.other" in sentence
    assert "refused: jobs/here.other-" in sentence
    assert "ends the process that opens it, or holds it up" in sentence


def test_a_reader_that_does_not_start_is_no_fault_of_the_tables_and_says_why(folder, tmp_path, monkeypatch):
    """It finds modules where this process finds them: PYTHONPATH is a usual way to install on clusters."""
    (tmp_path / "on-the-path").mkdir()
    (tmp_path / "on-the-path" / "only_here.py").write_text("raise ImportError('no pyarrow for this Python')\n")
    monkeypatch.syspath_prepend(tmp_path / "on-the-path")
    monkeypatch.setattr(apart, "_CODE", apart._CODE.replace("from pathlib", "import only_here\nfrom pathlib", 1))
    monkeypatch.setattr(apart, "_READER", apart._Reader())
    with pytest.raises(UserError, match="does not start: ImportError: no pyarrow for this Python"):
        collect([folder], bounds=SMALL)


def test_a_journal_with_a_control_character_is_refused_and_its_neighbour_is_read(folder):
    record = replace(GOOD, case=f"{CELL}/tokens3", message="\x1b[2J")
    journal.write(folder, names.name_of("here.good", identity(JOB, [record])), JOB, [record])
    collected = collect([folder], bounds=SMALL)
    assert {record.case for record in collected.records} == {GOOD.case, BAD.case}
    [sentence] = collected.broken
    assert "journals/here.good-" in sentence
    assert "a text has a control character" in sentence


def test_tables_that_were_checked_ahead_are_not_opened_again(folder, monkeypatch):
    with checked_ahead([folder], SMALL):
        pass
    monkeypatch.setattr(checks, "_check_footers", None)
    monkeypatch.setattr(checks, "connect", None)
    assert not checks.check(names.find(folder), SMALL)


def test_what_another_thread_looks_at_is_waited_for_and_not_looked_at_again(folder, monkeypatch):
    [files] = names.find(folder)
    state = checks._state_of(files, SMALL)
    monkeypatch.setattr(checks, "_check_footers", None)
    monkeypatch.setattr(checks, "connect", None)
    with ThreadPoolExecutor(1) as pool:
        with checks._alone({state}):
            other = pool.submit(checks.check, [files], SMALL)
            assert wait([other], 0.1).not_done
            checks._GOOD.add(state)
        assert other.result(10) == {}


@pytest.mark.slow
def test_runs_are_inserted_part_by_part_as_they_are_checked(folder, monkeypatch):
    monkeypatch.setattr(checks, "_AT_ONCE", 2)
    jobs = [f"here.{letter}" for letter in "abcde"]
    for job in jobs:
        write_results(folder, [replace(GOOD, job={**JOB, "job": job})])
    bad = next(files for files in names.find(folder) if files.job == "here.c")
    bad.path("outputs").write_bytes(b"")
    with database() as connection:
        loaded = load(connection, [folder], bounds=SMALL)
        taken = [job for (job,) in sql.rows(connection, "SELECT facts['job'] FROM sources JOIN jobs USING (source)")]
    assert sorted(taken) == ["here.a", "here.b", "here.d", "here.e", "here.good"]
    assert sorted(names.files_of(path).job for path in loaded.files) == sorted(taken)
    [sentence] = loaded.broken
    assert "here.c" in sentence


def test_what_fails_beside_the_checks_is_said_and_folders_that_are_not_there_are_not(folder):
    with pytest.raises(UserError, match="no such thing"), checked_ahead([folder, folder / "none"], SMALL):
        raise UserError("no such thing")
    with checked_ahead([folder / "none"], SMALL):
        pass


def test_what_is_refused_is_missing_for_its_job(folder):
    [files] = names.find(folder)
    files.path("cases").write_bytes(b"")
    assert "no whole Parquet file" in collect([folder]).refused["here.good"]


@pytest.mark.slow
def test_many_runs_and_many_bytes_are_refused(folder):
    for day in range(20, 25):
        write_results(folder, [replace(GOOD, job={**JOB, "started": f"2026-11-{day}T00:00:00Z"})])
    assert "there are more than 3 files" in "\n".join(collect([folder], bounds=Bounds(files=3)).broken)
    assert "all files together are larger" in "\n".join(collect([folder], bounds=Bounds(all_bytes=40_000)).broken)
    assert "is the most" in "\n".join(collect([folder], bounds=Bounds(file_bytes=3000)).broken)


@pytest.mark.slow
def test_a_small_file_that_unpacks_to_a_large_one_takes_little_memory(folder):
    """A text that occurs often stands in a Parquet file once: 20 kB become 1 GB."""
    [files] = names.find(folder)

    def bomb(table: pa.Table) -> pa.Table:
        row = table.slice(0, 1).to_pylist()[0]
        places = pa.array([0] * 5_000, pa.int32())
        columns = [
            pa.DictionaryArray.from_arrays(places, pa.array([row[f.name]], f.type))
            if pa.types.is_string(f.type)
            else pa.chunked_array([table.column(f.name).combine_chunks().take(places)])
            for f in table.schema
        ]
        wide = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 200_000]))
        columns[table.column_names.index("detail")] = wide
        return pa.table(columns, table.column_names)  # fmt: skip

    rewritten(files.path("cases"), bomb, compression="zstd")
    assert files.path("cases").stat().st_size < 2**20
    code = (
        "import sys; from pathlib import Path; from kernel_matrix.store.load import collect\n"
        "print(collect([Path(sys.argv[1])]).broken)\n"
        # Not ru_maxrss: it begins with the memory of the process that started this one.
        "print(*(int(line.split()[1]) // 1024 for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True, env=environment
    )
    megabytes = done.stdout.splitlines()[-1]  # with -c, DuckDB takes Python for a person's and draws its progress
    assert "refused: cases: " in done.stdout
    assert int(megabytes) < 700


@pytest.mark.slow
def test_a_job_in_tables_speaks_of_its_own_cases_only(folder):
    asked = {"here.good": Asked("here.good", {GOOD.case}, True)}
    assert "which its job was not asked for" in collect([folder], asked).broken[0]
    assert "the plan has no job of this name" in collect([folder], {}).broken[0]
    both = {"here.good": Asked("here.good", {GOOD.case, BAD.case}, False)}
    assert "ran, on a machine without that hardware" in collect([folder], both).broken[0]


@pytest.mark.slow
def test_tables_from_an_artifact_speak_for_its_own_row_only(folder):
    asked = {"here.good": Asked("here.good", {GOOD.case, BAD.case}, True)}
    folder.rename(folder.parent / "results-there.good")
    assert "came from another row than here.good" in collect([folder.parent], asked).broken[0]
    (folder.parent / "results-there.good").rename(folder.parent / "results-here.good")
    assert len(collect([folder.parent], asked).records) == 2


@pytest.mark.slow
def test_folders_with_special_characters_are_read(tmp_path):
    folder = tmp_path / "a=b" / "it's [1] *?"
    write_results(folder, [GOOD, BAD])
    write_results(tmp_path / "a=b" / "it's 1 x", [replace(GOOD, job={**JOB, "job": "here.other"})])
    assert len(collect([tmp_path]).records) == 3
    assert len(collect([folder]).records) == 2


@pytest.mark.slow
def test_parquet_files_of_others_are_left_alone(folder):
    pq.write_table(pa.table({"x": [1]}), folder / "data.parquet")
    assert collect([folder]).broken == ()


# --- The kept results, time and size ---


@pytest.mark.slow
def test_the_kept_results_are_tables_and_whole_and_far_from_every_bound():
    kept = ROOT / "docs" / "results"
    assert {path.suffix for path in kept.rglob("*.*") if path.is_file()} == {".parquet"}
    collected = collect([kept])
    assert collected.broken == ()
    assert len(collected.records) > 5000
    assert len(collected.files) == len(names.find(kept)) == len([*kept.iterdir()]) > 1
    longest = max(len(text) for record in collected.records for text in (record.detail, record.message))
    assert longest * 2 < Bounds().text


@pytest.mark.slow
def test_tables_of_a_large_job_take_a_fifth_of_the_room_of_junit_xml(tmp_path):
    """Parquet has a price for each file, so the share is larger in a small job."""
    kept = collect([ROOT / "docs" / "results" / "cpu-2-cores"]).records
    of_a_job = [record for record in kept if record.samples and record.job["job"] == "opencl.tvm-0.27"]
    assert len(of_a_job) > 150
    path = as_xml(tmp_path / "xml", of_a_job)
    files = write_results(tmp_path / "tables", of_a_job)
    assert sum(file.stat().st_size for file in files.paths) * 5 < path.stat().st_size


@pytest.mark.slow
def test_commands_that_need_no_tables_import_no_engine(tmp_path):
    code = (
        "import sys; from kernel_matrix.cli import main\n"
        f"main(['ci', 'plan', '--matrix', {str(ROOT / 'matrix.yaml')!r}, '--build', {str(tmp_path)!r}])\n"
        "import kernel_matrix.cli.query, kernel_matrix.cli.report, kernel_matrix.pipeline\n"
        "print(sorted({'pyarrow', 'duckdb'} & set(sys.modules)), file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stderr.splitlines()[-1] == "[]"


def test_every_column_says_what_it_means():
    assert len(SCHEMAS) == len(TABLES) == 4
    for schema in SCHEMAS.values():
        assert all(len(column.metadata[b"description"]) > 10 for column in schema)


def test_a_job_replaces_its_former_results_in_every_form(tmp_path):
    write_all(tmp_path, [GOOD])
    journal.write(tmp_path, f"here.good-{'0' * 16}", JOB, [GOOD])
    as_xml(tmp_path, [replace(GOOD, job={**JOB, "job": "here.other"})], "here.other")
    path = write_instead(tmp_path, JOB, [replace(GOOD, seconds=3.0)])
    assert names.results_of(tmp_path, "here.good") == [path]
    assert {record.job["job"]: record.seconds for record in collect([tmp_path]).records} == {
        "here.good": 3.0, "here.other": 1.25}  # fmt: skip


def test_several_jobs_are_written_at_once(tmp_path):
    other = replace(GOOD, job={**JOB, "job": "here.other"}, run="b")
    paths = write_all(tmp_path, [*(replace(one, run="a") for one in (GOOD, BAD)), other])
    assert [names.files_of(path).job for path in paths] == ["here.good", "here.other"]


def test_much_is_read_by_two_threads_and_little_by_one(tmp_path, monkeypatch):
    write_all(tmp_path, [GOOD])
    for few, threads in ((2**20, 1), (1, sql.THREADS)):
        monkeypatch.setattr("kernel_matrix.store.load._FEW_BYTES", few)
        with database() as connection:
            load(connection, [tmp_path])
            assert sql.one(connection, "SELECT current_setting('threads')") == threads
