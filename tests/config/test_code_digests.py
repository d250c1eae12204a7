"""The hashes of the harness's code are kept, and are those that would be made now."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kernel_matrix.base import syntax
from kernel_matrix.config import code_digests

ONE, TWO = b"x = 1  # one\n", b"x = 2\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(code_digests, "_file", lambda: tmp_path / "digests")
    monkeypatch.setattr(code_digests, "_new", {})
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    again()
    yield tmp_path / "digests"
    again()


def again() -> None:
    """Forget what this process knows, as another one does not know it."""
    code_digests.digest_of_code.cache_clear()
    code_digests._kept.cache_clear()


def kept(file: Path) -> dict[str, str]:
    for content in (ONE, TWO):
        code_digests.digest_of_code(content, of_harness=True)
    code_digests.keep()
    again()
    return json.loads(file.read_text())


def test_another_process_parses_no_file_of_the_harness_again(file, monkeypatch):
    expected = [code_digests.digest_of_code(content) for content in (ONE, TWO)]
    kept(file)
    monkeypatch.setattr(syntax, "code_of", lambda _: pytest.fail("it was parsed"))
    assert [code_digests.digest_of_code(content, of_harness=True) for content in (ONE, TWO)] == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize("change", ["no file", "no JSON", "another form", "made otherwise"])
def test_what_is_not_of_this_harness_is_not_believed(file, change):
    expected = code_digests.digest_of_code(ONE)
    content = kept(file)
    wrong = {**content, "digests": dict.fromkeys(content["digests"], "f" * 16)}
    match change:
        case "no file":
            file.unlink()
        case "no JSON":
            file.write_bytes(b"\xff{")
        case "another form":
            file.write_text("[]")
        case "made otherwise":
            file.write_text(json.dumps({**wrong, "made_by": "0" * 64}))
    assert code_digests.digest_of_code(ONE, of_harness=True) == expected


def test_the_package_s_own_files_are_not_kept(file):
    code_digests.digest_of_code(ONE)
    code_digests.keep()
    assert not file.exists()
