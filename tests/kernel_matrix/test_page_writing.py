"""The files of cells are the same, whichever process writes them, and what goes wrong there reaches the user."""

from __future__ import annotations

import os
import signal

import pytest

from kernel_matrix.base.errors import UserError
from kernel_matrix.report.document import CaseResult
from kernel_matrix.report.page_models import cases_of
from kernel_matrix.report.page_writing import FileOfCells, Writer, second_process


def result(name):
    empty = dict.fromkeys(("reason", "stale", "stage", "action", "message", "detail", "repeat"), "")
    return CaseResult(
        name=name, state="pass", evidence="ran", diagnosis=None, seconds=1.5, attempts=("one",),
        outputs={"out": {"max_abs": 0.25}}, artifact={}, times=None, facts={"dtype": name}, job=0, **empty
    )  # fmt: skip


class Cell:
    """As much of a cell as its cases need."""

    id = "p/t/c/op.forward"

    def __init__(self, *names):
        self.results = tuple(map(result, names))


PARTS = [cases_of([Cell(*(f"case{part}-{n}" for n in range(6)))]) for part in range(5)]


def write(folder, writer):
    """Write two files of each part."""
    for part, cases in enumerate(PARTS):
        for half in (0, 1):
            file = FileOfCells(2 * part + half, b'"cell":%d' % half, 3 * half, 3 * half + 3)
            writer.write(folder, [{"job": "one"}], cases, file)
    writer.end()


def test_a_second_process_writes_what_this_one_writes(tmp_path):
    write(tmp_path / "here", Writer())
    with second_process() as writer:
        write(tmp_path / "there", writer)
    here, there = ({path.name: path.read_bytes() for path in (tmp_path / name / "cells").iterdir()}
                   for name in ("here", "there"))  # fmt: skip
    assert len(here) == 10
    assert here == there


def test_an_error_in_the_second_process_is_raised_here(tmp_path):
    (tmp_path / "cells").write_text("a file in place of a folder")
    with pytest.raises(OSError, match="cells"), second_process() as writer:
        write(tmp_path, writer)


def test_a_second_process_that_is_killed_is_told_in_a_sentence(tmp_path):
    with second_process() as writer:
        writer.pool.submit(os.kill, writer.pool.submit(os.getpid).result(), signal.SIGKILL)
        with pytest.raises(UserError, match="has ended"):
            write(tmp_path, writer)
