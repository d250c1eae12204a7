"""The journal of a job: who is believed, what is proven, and what a second end of a case means."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from kernel_matrix.job import handed, own_files
from kernel_matrix.job.journal import FORGED, Journal
from kernel_matrix.run.proven import KEY as SHARED
from kernel_matrix.run.proven import Mark, Proven, mark_file
from kernel_matrix.store.journal import Ends

KEY = "k" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "here.good" / "journal.jsonl"


@pytest.fixture
def harness(path: Path) -> Journal:
    """Return the journal as the harness follows it."""
    path.parent.mkdir(parents=True)
    journal = Journal(path, KEY)
    journal.begin()
    journal.take_place()
    return journal


def written(path: Path, *kinds: str) -> Journal:
    """Write entries as the process that compares does."""
    journal = Journal(path, KEY)
    for kind in kinds:
        journal.write(kind)
    return journal


def kinds(journal: Journal) -> list[str]:
    return [entry["entry"] for entry in journal.new_entries()]


def line_of(path: Path, number: int) -> str:
    return path.read_text().splitlines()[number] + "\n"


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_an_entry_that_is_written_once_more_is_forged(harness: Journal, path: Path):
    process = written(path, "job", "start", "end")
    append(path, line_of(path, 2))
    process.write("stage")
    assert kinds(harness) == ["job", "start", "end", FORGED, "stage"]


def test_entries_in_another_order_are_forged(harness: Journal, path: Path):
    written(path, "job", "start", "end")
    lines = [line_of(path, number) for number in range(3)]
    path.write_text(lines[0] + lines[2] + lines[1])
    assert kinds(harness) == ["job", FORGED, "start"]


def test_an_entry_of_an_earlier_process_is_forged(harness: Journal, path: Path):
    written(path, "job", "end")
    assert kinds(harness) == ["job", "end"]
    harness.take_key("l" * 32)
    append(path, line_of(path, 0))
    harness.write("end")
    assert kinds(harness) == [FORGED, "end"]


def test_an_entry_of_the_harness_follows_those_of_a_process(harness: Journal, path: Path):
    written(path, "job", "start")
    assert kinds(harness) == ["job", "start"]
    harness.write("end")
    assert kinds(harness) == ["end"]


def test_a_line_that_was_cut_short_costs_itself_alone(harness: Journal, path: Path):
    process = written(path, "job")
    append(path, '{"entry": "sta')
    process.write("start")
    assert kinds(harness) == ["job", "start"]


def test_a_journal_that_was_cut_or_replaced_is_an_error(harness: Journal, path: Path):
    written(path, "job", "start")
    assert kinds(harness) == ["job", "start"]
    os.truncate(path, 10)
    with pytest.raises(OSError, match="something else was put in the place"):
        kinds(harness)
    harness.demand_in_place()
    path.rename(path.with_name("elsewhere"))
    path.touch()
    with pytest.raises(OSError, match="something else was put in the place"):
        harness.demand_in_place()


def test_what_is_put_in_the_place_of_an_open_journal_is_not_read(harness: Journal, path: Path):
    process = written(path, "job")
    path.rename(path.with_name("elsewhere"))
    written(path, "end")
    process.write("start")
    assert kinds(harness) == ["job", "start"]


def test_what_stands_behind_a_forged_entry_is_not_proven(harness: Journal, path: Path, tmp_path: Path):
    mark = Mark(tmp_path, "here.good", "asked")
    mark.take_place()
    process = written(path, "job", "start")
    append(path, '{"entry": "end", "case": "a", "outcome": "pass"}\n')
    process.write("end")
    assert kinds(harness) == ["job", "start", FORGED, "end"]
    mark.note(harness)
    proven = Proven(path, tmp_path, "here.good")
    assert [entry["entry"] for entry in proven.new_entries("asked")] == ["job", "start"]


@pytest.mark.parametrize("change", ["an entry", "the end", "the mark", "what was asked for", "nothing"])
def test_a_journal_that_was_changed_since_proves_nothing(harness: Journal, path: Path, tmp_path: Path, change: str):
    mark = Mark(tmp_path, "here.good", "asked")
    mark.take_place()
    written(path, "job", "start", "end")
    kinds(harness)
    mark.note(harness)
    text = path.read_text()
    match change:
        case "an entry":
            path.write_text(text.replace("start", "stage"))
        case "the end":
            path.write_text(text[:-30])
        case "the mark":
            mark_file(tmp_path, "here.good").unlink()
        case "what was asked for":
            asked = hashlib.sha256(b"other").hexdigest()
            file = mark_file(tmp_path, "here.good")
            file.write_text(" ".join([*file.read_text().split()[:2], asked]))
        case "nothing":
            append(path, line_of(path, 1))  # nobody has proven it
    proven = Proven(path, tmp_path, "here.good")
    if change == "nothing":
        assert [entry["entry"] for entry in proven.new_entries("asked")] == ["job", "start", "end"]
        assert [*proven.new_entries("asked")] == []
    else:
        with pytest.raises(OSError, match=r"something else|nobody knows|other cases"):
            [*proven.new_entries("asked")]


@pytest.mark.parametrize("change", ["nothing", "another key", "no key", "another job", "the size"])
def test_another_machine_believes_a_mark_that_its_key_has_signed(
    harness: Journal, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
):
    monkeypatch.setenv(SHARED, "k" * 64)
    mark = Mark(tmp_path, "here.good", "asked")
    mark.take_place()
    written(path, "job", "start", "end")
    kinds(harness)
    mark.note(harness)
    mark_file(tmp_path, "here.good").unlink()  # it stays on the first machine
    signed = tmp_path / "marks" / "here.good"
    job = "here.good"
    match change:
        case "another key":
            monkeypatch.setenv(SHARED, "l" * 64)
        case "no key":
            monkeypatch.delenv(SHARED)
        case "another job":
            job = "here.wrong"
            signed.rename(signed.with_name(job))
        case "the size":
            signed.write_text(signed.read_text().replace("0000", "0001", 1))
    proven = Proven(path, tmp_path, job)
    if change == "nothing":
        assert [entry["entry"] for entry in proven.new_entries("asked")] == ["job", "start", "end"]
    else:
        with pytest.raises(OSError, match=r"nobody knows|No such file"):
            [*proven.new_entries("asked")]


def test_a_mark_for_another_machine_says_no_more_than_is_on_the_disk(
    harness: Journal, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(SHARED, "k" * 64)
    on_disk = {}
    fsync = os.fsync

    def noted(file: int) -> None:
        fsync(file)
        on_disk[os.fstat(file).st_ino] = os.fstat(file).st_size

    monkeypatch.setattr(os, "fsync", noted)
    mark = Mark(tmp_path, "here.good", "asked")
    mark.take_place()
    process = written(path, "job")
    for _ in range(3):
        process.write("start", every=60)  # the disk has it some time later
        kinds(harness)
        mark.note(harness)
        signed = int((tmp_path / "marks" / "here.good").read_text().split()[0])
        assert on_disk.get(path.stat().st_ino, 0) >= signed == path.stat().st_size


def end(case: str, outcome: str, attempt: int = 1) -> dict[str, object]:
    return {"entry": "end", "case": case, "outcome": outcome, "action": "run", "attempt": attempt}


@pytest.mark.parametrize(
    "second", [end("a", "pass"), end("a", "fail"), {"entry": "start", "case": "a", "action": "run", "attempt": 1}]
)
@pytest.mark.parametrize("first", ["pass", "fail"])
def test_a_case_that_ends_or_begins_after_its_end_is_an_error(first: str, second: dict):
    ends = Ends()
    ends.take(end("a", first))
    record = ends.take(second)
    assert record is not None
    assert (record.outcome, record.case) == ("error", "a")
    assert "the journal says twice how this case went" in record.message
    assert ends.records["a"].outcome == "error"
    assert ends.take(end("b", "pass")).outcome == "pass"


def test_an_attempt_that_failed_is_no_end():
    ends = Ends(attempts=2)
    start = {"entry": "start", "case": "a"}
    assert [ends.take(entry) for entry in (start, end("a", "fail"), start)] == [None] * 3
    assert ends.take(end("a", "pass", 2)).outcome == "pass"


def test_another_job_than_the_one_that_was_handed_is_refused(tmp_path: Path, monkeypatch):
    file = tmp_path / "todo.json"
    file.write_text(json.dumps({"job": "here.good"}))
    assert handed.taken(file) == ({"job": "here.good"}, ""), "a person has started this process"
    monkeypatch.setattr(handed, "_handed", handed.words(KEY, file.read_text()).split())
    assert handed.taken(file) == ({"job": "here.good"}, KEY)
    assert handed.taken(file) == ({"job": "here.good"}, ""), "nobody gets a key twice"
    monkeypatch.setattr(handed, "_handed", handed.words(KEY, file.read_text()).split())
    file.write_text(json.dumps({"job": "here.wrong"}))
    with pytest.raises(OSError, match="something else was put in the place"):
        handed.taken(file)


def test_a_file_of_the_harness_is_written_in_the_place_of_anything(tmp_path: Path):
    folder, link, target = tmp_path / "folder", tmp_path / "link", tmp_path / "target"
    (folder / "in").mkdir(parents=True)
    target.write_text("as it is")
    link.symlink_to(target)
    for path in (folder, link, tmp_path / "new"):
        own_files.write(path, "text")
        assert own_files.text_of(path) == "text"
    assert target.read_text() == "as it is"
    assert own_files.text_of(tmp_path / "nothing") == ""
