"""Checks and calibrations are kept as one file with a line each, and read as the files that they were."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from kernel_matrix import cli
from kernel_matrix.base.errors import UserError
from kernel_matrix.report import checks
from kernel_matrix.store import documents


def check(
    name: str, cell: str = "a/b/c/op.forward", when: str = "2026-11-01T00:00:00Z", found: int = 0
) -> checks.Check:
    cells = [checks.CheckedCell(cell=cell, tried=3, found=found, explained=0, unfinished=0)]
    given = {
        "program": "p 1",
        "sees": "x",
        "machine": "m",
        "commit": "abc",
        "note": "",
        "findings": [],
        "unfinished": [],
    }
    return checks.Check.model_validate({**given, "name": name, "when": when, "cells": [c.model_dump() for c in cells]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, one in enumerate((check("memcheck"), check("racecheck"), check("memcheck", "a/b/d/op.forward"))):
        checks.write(one, tmp_path / "build", f"{one.name}-{number}")
    return tmp_path / "build" / "checks"


def test_packed_checks_are_read_as_the_files_that_they_were(folder, tmp_path):
    before = checks.read(folder)
    assert len(before) == 3
    assert cli.main(["pack", "--documents", str(folder), "--into", str(tmp_path / "kept")]) == 0
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["documents.jsonl.xz"]
    assert sorted(checks.read(tmp_path / "kept"), key=repr) == sorted(before, key=repr)
    assert checks.read(tmp_path / "kept", name="fuzz*") == ()
    assert documents.pack([folder], folder) == 3
    assert [path.name for path in folder.iterdir()] == ["documents.jsonl.xz"]
    first = (folder / "documents.jsonl.xz").read_bytes()
    assert documents.pack([folder], folder) == 3
    assert (
        (folder / "documents.jsonl.xz").read_bytes() == first == (tmp_path / "kept" / "documents.jsonl.xz").read_bytes()
    )


def test_a_packed_file_that_is_not_compressed_is_read_too_and_takes_the_new_form(folder, tmp_path):
    documents.pack([folder], folder)
    before, packed = checks.read(folder), folder / documents.PACKED
    packed.with_suffix("").write_bytes(lzma.decompress(packed.read_bytes()))
    packed.unlink()
    assert checks.read(folder) == before
    assert documents.pack([folder], folder) == 3
    assert [path.name for path in folder.iterdir()] == [documents.PACKED]


def test_a_compressed_file_that_was_cut_is_named(folder):
    documents.pack([folder], folder)
    packed = folder / documents.PACKED
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(UserError, match=r"documents\.jsonl\.xz: it is no whole xz file"):
        checks.read(folder)


def test_a_newer_check_of_the_same_cells_takes_the_place_of_an_earlier_one(folder, tmp_path):
    documents.pack([folder], tmp_path / "kept")
    checks.write(check("memcheck", when="2026-11-02", found=1), tmp_path / "new")
    for _ in range(2):
        assert documents.pack([tmp_path / "new"], tmp_path / "kept") == 3
        assert documents.pack([folder], tmp_path / "kept") == 3, "an older one replaces nothing"
    assert sorted(one.cells[0].found for one in checks.read(tmp_path / "kept")) == [0, 0, 1]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"cells": [{}]}', "3"])
def test_a_file_that_is_no_document_is_named_and_nothing_is_packed(folder, tmp_path, text):
    (folder / "other.json").write_text(text)
    with pytest.raises(UserError, match=r"other\.json: nothing was packed"):
        documents.pack([folder], tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_folders_without_documents_are_one_sentence(tmp_path):
    with pytest.raises(UserError, match="there is no such folder"):
        documents.pack([tmp_path / "absent"], tmp_path / "kept")
    with pytest.raises(UserError, match="there is no document to pack"):
        documents.pack([tmp_path], tmp_path / "kept")


def test_a_calibration_is_known_by_its_command(tmp_path):
    for number, command in enumerate(("calibrate --op a", "calibrate --op b", "calibrate --op a")):
        (tmp_path / f"{number}.json").write_text(json.dumps({"command": command, "seeds": number}))
    assert documents.pack([tmp_path], tmp_path / "kept") == 2
    kept = [json.loads(text) for _, text in documents.documents(tmp_path / "kept")]
    assert [(one["command"][-1], one["seeds"]) for one in kept] == [("a", 2), ("b", 1)]
