"""Many runs become one small set of four files, and every reader finds in it what the runs had."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from common import write_results
from records import BAD, GOOD, JOB
from records import record_with_sample as with_sample
from test_tables import as_xml, rewritten

from kernel_matrix import cli
from kernel_matrix.audit.files import choose
from kernel_matrix.base.errors import UserError
from kernel_matrix.results import history
from kernel_matrix.store import journal, names
from kernel_matrix.store.load import collect
from kernel_matrix.store.names import TABLES, JobFiles
from kernel_matrix.store.pack import pack
from kernel_matrix.store.query import ask
from kernel_matrix.store.record import Record
from kernel_matrix.store.validation import Asked, Bounds
from kernel_matrix.store.write import write

OTHER = {**JOB, "job": "here.other", "toolchain": "other"}
NEWER = {**JOB, "started": "2026-11-23T11:52:42Z"}
EMPTY = {**JOB, "job": "here.empty"}


def content(folder: Path) -> dict[tuple[str, str], Record]:
    """Return the records of a folder by run and case; nothing in it may be refused."""
    found = collect([folder])
    assert found.broken == ()
    return {(record.run, record.case): record for record in found.records}


def files_in(folder: Path) -> dict[str, bytes]:
    """Return what lies below a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Make three runs: one with samples, one in a folder of its own, and one that tried nothing."""
    write_results(tmp_path / "runs", [with_sample(job=JOB), BAD])
    write_results(tmp_path / "runs" / "rest", [replace(GOOD, case="here/any/other/double.forward/tokens1", job=OTHER)])
    write(tmp_path / "runs", EMPTY, [])
    return tmp_path / "runs"


@pytest.fixture
def packed(tmp_path: Path, runs: Path) -> Path:
    pack([runs], tmp_path / "set")
    return tmp_path / "set"


def test_a_packed_set_has_every_record_figure_and_sample_in_four_files(runs, packed):
    assert len(content(runs)) == 3
    assert repr(content(packed)) == repr(content(runs))
    assert [record.samples for record in content(packed).values()] == [one.samples for one in content(runs).values()]
    assert any(record.samples for record in content(packed).values())
    assert sorted(files_in(packed)) == [f"{table}.parquet" for table in sorted(TABLES)]
    assert len(files_in(runs)) == 12


def test_runs_that_are_there_in_both_forms_count_once(runs, packed, tmp_path):
    pack([runs], tmp_path / "second")
    for folders in ([runs, packed], [packed, runs], [packed, tmp_path / "second"]):
        found = collect(folders)
        assert found.broken == ()
        assert len(found.records) == 3
        chosen = choose(folders, [])
        assert [len(raws) for raws in chosen.by_case.values()] == [1, 1, 1]
        assert ask("SELECT count(*) FROM cases", folders).rows == ((3,),)
        assert ask("SELECT count(*) FROM samples", folders).rows == ((2,),)


def test_a_set_that_has_a_part_of_the_runs_of_another_adds_the_rest(runs, tmp_path):
    pack([runs / "rest"], tmp_path / "a")
    pack([runs], tmp_path / "b")
    for folders in ([tmp_path / "a", tmp_path / "b"], [tmp_path / "b", tmp_path / "a"]):
        assert len(collect(folders).records) == 3
        assert ask("SELECT count(*), count(DISTINCT run) FROM cases", folders).rows == ((3, 2),)
        assert [len(raws) for raws in choose(folders, []).by_case.values()] == [1, 1, 1]


def test_every_reader_finds_in_a_set_what_the_runs_had(runs, packed):
    for query in ("FROM jobs", "FROM cases", "FROM outputs", "FROM samples", "FROM cells", "FROM versions"):
        rows = [sorted(map(repr, ask(f"SELECT * {query}", [folder]).rows)) for folder in (runs, packed)]
        assert rows[0] == rows[1]
        assert rows[0], query
    raws = [choose([folder], []) for folder in (runs, packed)]
    plain = [
        {case: [raw._replace(file="", run="") for raw in raws] for case, raws in chosen.by_case.items()}
        for chosen in raws
    ]
    assert len(plain[0]) == 3
    assert plain[0] == plain[1]
    assert raws[1].silent == ()
    assert history.read(runs).seconds == history.read(packed).seconds != {}


def test_packing_a_set_again_gives_the_same_bytes_and_reads_no_more_than_the_set(runs, packed, tmp_path):
    before = files_in(packed)
    for folders, into in (
        ([packed], packed),
        ([packed], tmp_path / "again"),
        ([runs], packed),
        ([runs, packed], packed),
    ):
        pack(folders, into)
        assert files_in(into) == before


def test_runs_that_lie_in_the_folder_of_the_set_go_into_it_and_others_stay_where_they_are(runs, tmp_path):
    before = content(runs)
    write_results(tmp_path / "elsewhere", [replace(GOOD, job={**JOB, "job": "here.third"})])
    elsewhere = files_in(tmp_path / "elsewhere")
    pack([tmp_path / "elsewhere"], runs)  # its folder rest is not named, and stays
    assert files_in(tmp_path / "elsewhere") == elsewhere
    assert {path.split("/")[0] for path in files_in(runs)} == {*(f"{table}.parquet" for table in TABLES), "rest"}
    pack([runs], runs)
    assert sorted(files_in(runs)) == [f"{table}.parquet" for table in sorted(TABLES)]
    assert content(runs).items() >= before.items()
    assert len(content(runs)) == 4


def test_journals_are_packed_and_come_back_as_they_were(tmp_path):
    record = with_sample(job=JOB)
    run = content_of_one(tmp_path / "tables", record)
    journal.write(tmp_path / "left", f"here.good-{run}", JOB, [record])
    pack([tmp_path / "left"], tmp_path / "left")
    assert sorted(files_in(tmp_path / "left")) == [f"{table}.parquet" for table in sorted(TABLES)]
    assert content(tmp_path / "left") == content(tmp_path / "tables")


def content_of_one(folder: Path, record: Record) -> str:
    """Write a record as tables, and return its run."""
    return write_results(folder, [record]).run


UNAVAILABLE = replace(GOOD, outcome="unavailable", action="")
REPLACED = {
    "all measured anew": ([GOOD, BAD], [GOOD, BAD], True),
    "more than before": ([GOOD], [GOOD, BAD], True),
    "a part": ([GOOD, BAD], [GOOD], False),
    "nothing was known, and something is now": ([UNAVAILABLE], [GOOD], True),
    "something was known, and nothing is now": ([GOOD], [UNAVAILABLE], False),
    "nothing is known, once more": ([UNAVAILABLE], [UNAVAILABLE], True),
    "it ran, and was compiled now": ([GOOD], [replace(GOOD, action="compile")], False),
    "on another device": ([GOOD], [replace(GOOD, job={**NEWER, "device": "y"})], False),
    "by a job of another name": ([GOOD], [replace(GOOD, job={**NEWER, "job": "here.good.1of2"})], True),
    "an empty run of the job": ([], [GOOD], True),
}


@pytest.fixture
def old_and_new(tmp_path) -> tuple[Path, Path]:
    """Write an old and a new run of each entry, which has a job and cases of its own."""
    for number, (old, new, _) in enumerate(REPLACED.values()):
        of_new = {**NEWER, **(new[0].job if new[0].job != JOB else {})}
        for folder, job, records in (("old", JOB, old), ("new", of_new, new)):
            own = {**job, "job": job["job"].replace("good", f"good{number}")}
            write(tmp_path / folder, own, [replace(one, case=f"{one.case}-{number}") for one in records])
    return tmp_path / "old", tmp_path / "new"


def test_a_run_of_the_set_goes_when_newer_ones_that_come_have_all_of_it_anew(old_and_new, tmp_path):
    old, new = old_and_new
    pack([old], tmp_path / "set")
    made = pack([new], tmp_path / "set")
    replaced = {run.facts["job"]: run.started for run in made.replaced.values()}
    for number, (name, (*_, is_replaced)) in enumerate(REPLACED.items()):
        assert replaced.get(f"here.good{number}") == (JOB["started"] if is_replaced else None), name
    assert len(made.runs) == 2 * len(REPLACED) - len(replaced)
    starts = [record.job["started"] for record in collect([tmp_path / "set"]).records]
    assert starts.count(NEWER["started"]) == sum(len(records) for _, records, _ in REPLACED.values())
    assert pack([new], tmp_path / "set").runs == made.runs


def test_runs_that_come_together_or_too_late_all_stay(old_and_new, tmp_path):
    old, new = old_and_new
    assert len(pack([old, new], tmp_path / "set").runs) == 2 * len(REPLACED)
    assert len(pack([tmp_path / "set"], tmp_path / "set").runs) == 2 * len(REPLACED)
    pack([new], tmp_path / "later")
    assert len(pack([old], tmp_path / "later").runs) == 2 * len(REPLACED)


def of_xml(folder: Path) -> None:
    as_xml(folder, [replace(GOOD, job={**JOB, "job": "here.third"})], "here.third")


def cut(folder: Path) -> None:
    [path, *_] = sorted(folder.glob("cases/*.parquet"))
    path.write_bytes(path.read_bytes()[:-9])


def without_a_table(folder: Path) -> None:
    [path, *_] = sorted(folder.glob("samples/*.parquet"))
    path.unlink()


def unsigned(folder: Path) -> None:
    write(folder, {**JOB, "job": "here.told", "told.by": "eve"}, [GOOD])


CANNOT = {
    "JUnit XML": (of_xml, "here.third.xml: JUnit XML has no place in tables"),
    "a table that was cut": (cut, "is no whole Parquet file"),
    "a table that is gone": (without_a_table, "is absent"),
    "a word that nobody has signed": (unsigned, "nobody has signed it"),
}


@pytest.mark.parametrize(("harm", "words"), CANNOT.values(), ids=CANNOT)
def test_what_cannot_be_carried_is_named_and_nothing_is_written(runs, packed, harm, words, capsys):
    before = files_in(packed)
    harm(runs)
    assert cli.main(["pack", str(runs), "--into", str(packed)]) == 2
    assert words in capsys.readouterr().err
    assert files_in(packed) == before


@pytest.mark.parametrize(
    ("folder", "into", "words"),
    [
        ("absent", "set", "there is no such results folder"),
        ("empty", "set", "there are no results to pack"),
        ("runs", "jobs", "a folder of this name has one table of many runs"),
    ],
)
def test_folders_that_cannot_be_used_are_one_sentence(runs, tmp_path, folder, into, words):
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=words):
        pack([tmp_path / folder], tmp_path / into)
    assert not (tmp_path / into).exists()


def test_the_command_says_what_the_set_has_and_what_was_replaced(runs, tmp_path, capsys):
    assert cli.main(["pack", str(runs), "--into", str(tmp_path / "set")]) == 0
    write(tmp_path / "newer", NEWER, [with_sample(job=NEWER), BAD])
    assert cli.main(["pack", str(tmp_path / "newer"), "--into", str(tmp_path / "set")]) == 0
    printed = capsys.readouterr().out
    size = sum(path.stat().st_size for path in (tmp_path / "set").iterdir())
    assert "3 runs with 3 results" in printed
    assert f"{size:,} bytes" in printed
    assert "replaced by newer runs: here.good-" in printed


# --- Sets of strangers ---


def edited(table: str, change: Callable[[list[dict[str, object]]], object]) -> Callable[[JobFiles], None]:
    """Return what changes the rows of a table."""

    def edit(files: JobFiles) -> None:
        def of(content: pa.Table) -> pa.Table:
            rows = content.to_pylist()
            rows = change(rows) or rows
            return pa.Table.from_pylist(rows, pa.schema([field.with_nullable(True) for field in content.schema]))

        rewritten(files.path(table), of)

    return edit


def linked(files: JobFiles) -> None:
    path = files.path("cases").rename(files.folder.parent / "elsewhere.parquet")
    files.path("cases").symlink_to(path)


def of(column: str, value: object, row: int = 0) -> Callable[[list[dict[str, object]]], None]:
    return lambda rows: rows[row].update({column: value})


HOSTILE = [
    (lambda files: files.path("outputs").unlink(), "outputs.parquet is absent: the tables of a packed set"),
    (lambda files: files.path("cases").write_text("x"), "is no whole Parquet file"),
    (linked, "symbolic link"),
    (edited("jobs", lambda rows: rows * 2), "jobs: it speaks of", "twice"),
    (edited("jobs", lambda rows: rows[:-1]), "is no case of a job in this set", "cases: it speaks of"),
    (edited("jobs", of("run", "../../../../etc")), "the name of its job or of its run is none"),
    (edited("jobs", of("run", "0" * 16)), "its content is that of the run"),
    (edited("jobs", of("run", "0" * 16, -1)), "it speaks of", "which is no case"),
    (edited("jobs", of("commit", "other")), "the column commit differs from the fact commit"),
    (edited("jobs", of("schema_version", 9)), "it has the schema version 9"),
    (edited("cases", lambda rows: rows[:-1]), "which is no case of this run"),
    (edited("cases", lambda rows: rows * 2), "cases: it speaks of", "twice"),
    (edited("cases", of("run", "1" * 16)), "which is no case of a job in this set"),
    (edited("cases", of("outcome", "pass", 1)), "its content is that of the run"),
    (edited("outputs", of("max_abs", 0.0)), "its content is that of the run"),
    (edited("samples", of("bits", bytes(32))), "its content is that of the run"),
    (edited("samples", lambda rows: rows * 2), "samples: it speaks of", "twice"),
]  # fmt: skip


def test_sets_that_were_changed_are_refused_as_a_whole_and_the_fault_of_each_is_named(tmp_path, packed):
    write_results(tmp_path / "good", [replace(GOOD, job={**JOB, "job": "here.third"})])
    sets = [tmp_path / f"{number}." / "set" for number in range(len(HOSTILE))]
    for folder, (harm, *_) in zip(sets, HOSTILE, strict=True):
        shutil.copytree(packed, folder)
        harm(JobFiles(folder, ""))
    found = collect([*sets, tmp_path / "good"])
    assert len(found.broken) == len(HOSTILE)
    for number, (_, *words) in enumerate(HOSTILE):
        [sentence] = [one for one in found.broken if f"/{number}./set/jobs.parquet: refused: " in one]
        assert [word for word in words if word not in sentence] == []
    assert len(found.records) == 1
    chosen = choose([*sets, tmp_path / "good"], found.broken)
    assert [len(raws) for raws in chosen.by_case.values()] == [1]
    assert chosen.silent == ()


def test_a_set_with_more_than_its_bounds_is_refused(packed):
    for bounds, words in (
        (Bounds(files=2), "jobs has 3 rows, and 2 is the most"),
        (Bounds(cases=2), "cases has 3 rows"),
    ):
        assert words in " ".join(collect([packed], bounds=bounds).broken)


def test_a_set_is_compared_with_what_each_of_its_jobs_was_asked_for(packed):
    cases = [with_sample().case, BAD.case, "here/any/other/double.forward/tokens1"]
    asked = {job: Asked("row", cases, True) for job in ("here.good", "here.other", "here.empty")}
    assert len(collect([packed], asked).records) == 3
    for other in (
        {**asked, "here.other": Asked("row", cases[:2], True)},
        {**asked, "here.good": Asked("row", cases, False)},
        {job: one for job, one in asked.items() if job != "here.other"},
    ):
        found = collect([packed], other)
        assert found.records == ()
        assert len(found.broken) == 1


def test_the_paths_of_a_set_are_told_from_those_of_single_runs(tmp_path):
    single = names.files_of(tmp_path / "jobs" / "here.good-0123456789abcdef.parquet")
    assert (single.packed, single.folder) == (False, tmp_path)
    packed = names.files_of(tmp_path / "cases.parquet")
    assert (packed.packed, packed.path("jobs")) == (True, tmp_path / "jobs.parquet")
    assert not names.is_table(tmp_path / "other.parquet")
    assert names.is_table(tmp_path / "samples.parquet")


def test_the_runs_before_the_last_ones_are_kept_as_history_and_are_no_results(tmp_path):
    """A set `former` lies below the set: no reader takes it for a result of today, and the report for its history."""
    first, second, third = (
        replace(
            GOOD, metrics={**GOOD.metrics, "time.run": 0.1 * day}, job={**JOB, "started": f"2026-11-2{day}T10:00:00Z"}
        )
        for day in (1, 2, 3)
    )
    into = tmp_path / "set"
    for number, record in enumerate((first, second, third)):
        write_results(tmp_path / str(number), [record])
        packed = pack([tmp_path / str(number)], into, former=True)
        assert len(packed.runs) == 1
    assert {record.job["started"] for record in content(into).values()} == {third.job["started"]}
    assert {record.job["started"] for record in content(into / "former").values()} == {second.job["started"]}
    assert {raw.job["started"] for raws in choose([into], []).by_case.values() for raw in raws} == {
        third.job["started"]
    }
    known = history.with_former(history.History(), [tmp_path / "set"])
    assert known.tables == (into / "former", into)
    assert f"{known.lanes['here/any/good'].last_result:%Y-%m-%d}" == "2026-11-22"
    assert history.with_former(history.History(), [tmp_path / "0"]) == history.History()
    (into / "former" / "jobs.parquet").write_bytes(b"")
    assert "No table can be used" in history.with_former(history.History(), [into]).problems[0]


def test_without_the_option_a_former_run_is_dropped(tmp_path):
    for number, day in enumerate((1, 2)):
        write_results(tmp_path / str(number), [replace(GOOD, job={**JOB, "started": f"2026-11-2{day}T10:00:00Z"})])
        pack([tmp_path / str(number)], tmp_path / "set")
    assert not (tmp_path / "set" / "former").exists()
