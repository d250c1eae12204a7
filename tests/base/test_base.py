"""The base room: files are written whole, waiting has a limit, and texts name no folder of this machine."""

from __future__ import annotations

import gc
from contextlib import suppress
from pathlib import Path

import pytest

from kernel_matrix.base.collection import many_objects_that_stay
from kernel_matrix.base.files import write_atomically, written_whole
from kernel_matrix.base.paths import without_folders
from kernel_matrix.base.waiting import wait_until


def test_a_file_that_cannot_be_written_whole_keeps_its_former_content(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    write_atomically(file, "first")

    def write_half() -> None:
        with written_whole(file) as part:
            part.write_text("half of the sec")
            raise RuntimeError("the disk is full")

    with pytest.raises(RuntimeError):
        write_half()
    assert file.read_text() == "first"
    assert list(tmp_path.iterdir()) == [file]
    write_atomically(file, b"second")
    assert file.read_text() == "second"
    state = file.stat().st_ino, file.stat().st_mtime_ns
    write_atomically(file, "second")
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == state, "it has this content already"
    write_atomically(file, "sec0nd")
    assert file.read_text() == "sec0nd", "another content of the same size"


def test_waiting_ends_with_the_answer_or_with_the_time() -> None:
    answers = iter([None, None, 0])
    assert wait_until(lambda: next(answers)) == 0
    assert wait_until(lambda: None, seconds=0.1) is None


def test_folders_of_this_machine_leave_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    names = {"/home/someone/project": ".", "/home/someone/project/build": "build"}
    text = "/home/someone/project/build/x.c, /home/someone/project/y, '/home/someone/project', /home/someone/.cache"
    assert without_folders(text, names) == "build/x.c, ./y, '.', ~/.cache"
    assert without_folders("/home/someone/project-2/z and /home/someone2", names) == "~/project-2/z and /home/someone2"


def test_folders_of_pythons_leave_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    text = 'File "/opt/e/lib/python3.11/site-packages/p/a.py", File "/usr/lib/python3.11/ast.py", http://x'
    assert without_folders(text, {}, packages=True) == (
        'File "site-packages/p/a.py", File "python3.11/ast.py", http://x'
    )


def test_garbage_is_looked_for_again_after_many_objects_were_made() -> None:
    assert gc.isenabled()
    with suppress(ValueError), many_objects_that_stay():
        assert not gc.isenabled()
        raise ValueError
    assert gc.isenabled()
    gc.disable()
    try:
        with many_objects_that_stay():
            assert not gc.isenabled()
        assert not gc.isenabled(), "somebody else has switched it off"
    finally:
        gc.enable()
