"""Other tools get the same files in turn; that one fails, hangs or cannot be installed is a result."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from kernel_matrix.base.errors import UserError
from kernel_matrix.lab.scale_others import Tool, measured, others


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "results").mkdir()
    for number in range(8):
        (tmp_path / "results" / f"job-{number}.xml").write_text("<testsuites>" + '<testcase name="a"/>' * 10)
    return tmp_path


def tool(name: str, code: str, installs: str = "") -> Tool:
    """Return a tool that is Python code; argv has the folder of the results and the one to write into."""
    return Tool(
        name, lambda _: installs, lambda _, results, into: [sys.executable, "-c", code, str(results), str(into)]
    )


WRITES = """
import pathlib, sys
files = sorted(pathlib.Path(sys.argv[1]).iterdir())
pathlib.Path(sys.argv[2], "out.txt").write_text("".join(path.read_text() for path in files))
"""
FAILS_AT_FOUR = "import os, sys; sys.exit('too many' if len(os.listdir(sys.argv[1])) >= 4 else 0)"


def test_every_tool_gets_the_first_files_of_each_size_in_turn(folder):
    lines = list(others(folder, [tool("one", WRITES)], sizes=(10, 40, 80)))
    assert [line.split(":")[1] for line in lines] == [
        " 10 results in 1 files", " 40 results in 4 files", " 80 results in 8 files"
    ]  # fmt: skip
    assert all("it wrote 1 files" in line for line in lines)
    assert not any((folder / "others" / "one" / name).exists() for name in ("results", "out"))


def test_a_size_counts_planned_cases_of_which_some_have_no_result(folder):
    lines = list(others(folder, [tool("one", WRITES)], sizes=(10, 84, 100)))
    taken = [line.split(":")[1] for line in lines]
    assert taken == [" 10 results in 1 files", " 80 results in 8 files"], "80 results are of 84 cases, and not of 100"


def test_a_tool_that_fails_is_given_no_more_and_the_next_one_is_tried(folder):
    lines = list(others(folder, [tool("bad", FAILS_AT_FOUR), tool("good", WRITES)], sizes=(10, 40, 80)))
    assert [line.split(":")[0] for line in lines] == ["bad", "bad", "good", "good", "good"]
    assert lines[1].endswith("it ended with status 1: too many")


def test_a_tool_that_cannot_be_installed_is_named_with_the_reason(folder):
    assert list(others(folder, [tool("absent", "", installs="no such package")])) == [
        "absent: it cannot be installed: no such package"
    ]


@pytest.mark.slow
def test_a_tool_that_takes_too_long_is_ended_with_what_it_started(tmp_path):
    mark = tmp_path / "mark"
    later = f"import time; time.sleep(2); open({str(mark)!r}, 'w')"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {later!r}]); time.sleep(60)"
    run = measured(lambda _: [sys.executable, "-c", code], tmp_path / "out", 1)
    assert run.ended == "it took longer than 1 s"
    assert run.wall < 30
    time.sleep(2.5)
    assert not mark.exists()


def test_the_time_and_the_memory_are_those_of_the_tool(tmp_path):
    run = measured(lambda _: [sys.executable, "-c", "x = bytearray(200 * 2**20)"], tmp_path / "out", 60)
    assert run.ended == ""
    assert run.memory > 200 * 2**20
    assert run.cpu > 0


def test_a_command_that_does_not_exist_is_a_result(tmp_path):
    assert "No such file" in measured(lambda _: [str(tmp_path / "absent")], tmp_path / "out", 1).ended


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(UserError, match="there are no results"):
        list(others(tmp_path, []))


def test_the_files_of_the_results_stay_as_they_are(folder):
    before = {path: path.read_text() for path in Path(folder, "results").iterdir()}
    list(others(folder, [tool("one", WRITES)], sizes=(40,)))
    assert {path: path.read_text() for path in Path(folder, "results").iterdir()} == before
