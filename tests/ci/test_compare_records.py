"""ci/compare-records reads JUnit XML, tables and journals, and finds the same records in all."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from common import write_results

from kernel_matrix.store import journal, junit
from kernel_matrix.store.pack import pack
from kernel_matrix.store.record import Record

SCRIPT = Path(__file__).parents[2] / "ci" / "compare-records"
JOB = {"job": "cpu.one", "started": "2026-11-22T11:00:00Z", "version.compiler": "1.5", "lock.sha256": "1" * 64}
RECORDS = [
    Record("cpu/any/one/op.forward/a", "pass", "run", seconds=1.5, attempts=("error",), job=JOB,
           metrics={"h.max_abs": 1e-7, "h.other": 2.0, "artifact.bytes": 12.0}, facts={"artifact.kind": "elf"}),
    Record("cpu/any/one/op.forward/b", "error", "run", "launch", "a message\nof two lines", "its detail", job=JOB),
    Record("cpu/any/one/op.forward/c", "unavailable", message="no device", job=JOB),
]  # fmt: skip


LACKS = {"compare-records": "pyarrow", "measure-page": "playwright"}


@pytest.fixture
def bare(tmp_path):
    """Return a Python that has the standard library alone, and copies of the scripts with a .venv that is this one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    shutil.copytree(SCRIPT.parent, tmp_path / "clone" / "ci", ignore=shutil.ignore_patterns("locks"))
    return tmp_path / "bare" / "bin" / "python"


def test_a_python_without_what_reads_tables_gives_way_to_the_one_that_has_it(tmp_path, bare):
    write_results(tmp_path / "before", RECORDS)
    (tmp_path / "clone" / ".venv").symlink_to(sys.prefix)
    script = tmp_path / "clone" / "ci" / "compare-records"
    command = [bare, script, tmp_path / "before", tmp_path / "before"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == compared(tmp_path / "before", tmp_path / "before")[1]


@pytest.mark.parametrize("name", LACKS)
def test_without_any_python_that_has_it_a_sentence_says_what_to_do(tmp_path, bare, name):
    write_results(tmp_path / "before", RECORDS)
    (tmp_path / "index.html").touch()
    words = {"compare-records": ["before", "before"], "measure-page": ["."]}[name]
    command = [bare, tmp_path / "clone" / "ci" / name, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    sentence = f"ci/{name}: this Python has no {LACKS[name]}. `ci/nox -l` makes .venv, which has it.\n"
    assert (done.returncode, done.stderr) == (2, sentence)


def compared(before, after):
    done = subprocess.run([sys.executable, SCRIPT, before, after], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_the_same_records_are_found_in_xml_and_in_tables(tmp_path):
    junit.write(tmp_path / "xml.xml", "cpu.one", RECORDS, JOB)
    (tmp_path / "xml").mkdir()
    (tmp_path / "xml.xml").rename(tmp_path / "xml" / "cpu.one.xml")
    write_results(tmp_path / "tables", RECORDS)
    assert compared(tmp_path / "xml", tmp_path / "tables") == (0, "\n3 cases before, 3 after, 0 differences\n")


def test_the_same_records_are_found_in_journals_and_in_tables(tmp_path):
    journal.write(tmp_path / "journals", "cpu.one-0123", JOB, RECORDS)
    write_results(tmp_path / "tables", RECORDS)
    assert compared(tmp_path / "journals", tmp_path / "tables") == (0, "\n3 cases before, 3 after, 0 differences\n")
    journal.write(tmp_path / "other", "cpu.one-0123", JOB, [replace(RECORDS[0], metrics={}), *RECORDS[1:]])
    assert "metric.h.max_abs: '1e-07' -> None" in compared(tmp_path / "tables", tmp_path / "other")[1]


def test_the_same_records_are_found_in_tables_of_runs_and_in_a_packed_set(tmp_path):
    write_results(tmp_path / "tables", RECORDS)
    write_results(tmp_path / "tables", [replace(record, job={**JOB, "job": "cpu.two"}) for record in RECORDS])
    pack([tmp_path / "tables"], tmp_path / "set")
    assert compared(tmp_path / "set", tmp_path / "tables") == (0, "\n6 cases before, 6 after, 0 differences\n")


@pytest.mark.slow
def test_every_part_of_a_record_that_tables_change_is_found(tmp_path):
    write_results(tmp_path / "before", RECORDS)
    changes = [
        {"outcome": "fail"},
        {"metrics": {**RECORDS[0].metrics, "h.max_abs": 2e-7}},
        {"metrics": {**RECORDS[0].metrics, "h.other": 3.0}},
        {"metrics": {**RECORDS[0].metrics, "artifact.bytes": 13.0}},
        {"facts": {"artifact.kind": "ptx"}},
        {"attempts": ()},
        {"job": {**JOB, "version.compiler": "1.6"}},
    ]
    for number, change in enumerate(changes):
        changed = [replace(RECORDS[0], **change), *(replace(r, job=change.get("job", JOB)) for r in RECORDS[1:])]
        write_results(tmp_path / str(number), changed)
        status, text = compared(tmp_path / "before", tmp_path / str(number))
        assert status == 1, change
        assert "cpu.one" in text
    write_results(tmp_path / "text", [*RECORDS[:1], replace(RECORDS[1], message="another"), RECORDS[2]])
    assert "message: 'a message of two lines' -> 'another'" in compared(tmp_path / "before", tmp_path / "text")[1]
    write_results(tmp_path / "fewer", RECORDS[:2])
    assert "cpu/any/one/op.forward/c: only before" in compared(tmp_path / "before", tmp_path / "fewer")[1]


def test_a_folder_without_a_record_is_said(tmp_path):
    write_results(tmp_path / "before", RECORDS)
    (tmp_path / "after").mkdir()
    assert compared(tmp_path / "before", tmp_path / "after")[0] == 2
