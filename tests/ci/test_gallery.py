"""The script that tries published packages: the rows that it writes, and where it goes on."""

from __future__ import annotations

import json

import gallery
import pytest

PAGE = "before\n<!-- gallery -->\n<!-- end of the gallery -->\nafter\n"


@pytest.fixture
def answers(tmp_path, monkeypatch):
    """Answer for kernel-matrix: what each command prints, and what it leaves."""

    def answer(status, states=None, said="kernel-matrix: {root}: no test"):
        def timed(root, words):
            if words == "kernel-matrix init":
                if states:
                    (root / "matrix.yaml").touch()
                return gallery.Done(status, f"package it\n{said.format(root=root)}", 12.4, 3.1)
            (root / "build/site").mkdir(parents=True)
            (root / "build/site/compat.json").write_text(json.dumps({"run": {"cases_by_state": states}}))
            printed = (
                "  cause: A long one. [some-rule]\nThe suite's own comparisons see 2 of 3 known faults (1 line asked)."
            )
            return gallery.Done(1, printed, 60.2, 20)

        monkeypatch.setattr(gallery, "timed", timed)
        monkeypatch.setattr(gallery, "workflow_of", lambda _: gallery.Done(0, "", 30, 9))
        return gallery.row_of("it==1", "Triton", tmp_path)

    return answer


def test_a_row_says_how_long_it_took_and_what_was_found(answers):
    assert answers(0, {"error": 1, "held": 3}) == (
        "| it==1 | Triton | 12 s (3 of CPU) | 60 s (20 of CPU), status 1 | 30 s (9 of CPU) | "
        "1 error, 3 held. Its comparisons see 2 of 3 faults. Cause: some-rule |"
    )


def test_a_package_that_init_refuses_has_a_row_with_the_reason(answers):
    row = "| it==1 | Triton | 12 s (3 of CPU), status 2 | | | kernel-matrix: FOLDER: no test |"
    assert answers(2) == row


def test_a_package_without_tests_has_a_row_with_the_reason_and_not_what_comes_next(answers):
    said = "no test that imports it was found, so no matrix.yaml is written: write one\nnext: {root}/ci/kernel-matrix"
    assert answers(0, said=said) == "| it==1 | Triton | 12 s (3 of CPU) | | | no test that imports it was found |"


def test_who_ends_the_script_goes_on_where_it_stopped(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    tried = []

    def fetched(name, _):
        if len(tried) == 2:
            raise KeyboardInterrupt
        tried.append(name)
        return tmp_path

    monkeypatch.setattr(gallery, "fetched", fetched)
    monkeypatch.setattr(gallery, "row_of", lambda name, kind, _: f"| {name} | {kind} | 1 s | 1 s | 1 s | 3 held |")
    monkeypatch.setattr("sys.argv", ["gallery.py", "--page", str(page)])
    with pytest.raises(KeyboardInterrupt):
        gallery.main()
    first, second, third, *_ = gallery.PACKAGES
    assert [*gallery.rows_of(page)] == ["package", "---", first, second]
    assert page.read_text().count(gallery.NOT_RUN) == len(gallery.PACKAGES) - 2
    tried[:] = []
    with pytest.raises(KeyboardInterrupt):
        gallery.main()
    assert tried == [third, [*gallery.PACKAGES][3]]
    monkeypatch.setattr("sys.argv", ["gallery.py", "--page", str(page), "more==1"])
    tried[:] = []
    assert gallery.main() == 0
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("3 held |\n<!-- end of the gallery -->\nafter\n")
