"""Of verdicts a page of candidates is made, and a check of the project that is here."""

from __future__ import annotations

import json

from kernel_matrix.report import checks
from kernel_matrix.tools.verify import page, project

CASE = {"share": 0.25, "noise": 1.5}


def told(name, verdict, **words):
    return {"id": name, "verdict": verdict, "reason": "", "task": "t", "cases": [CASE], **words}


def written(path, *several):
    path.write_text("".join(json.dumps(one) + "\n" for one in several))
    return path


def test_a_page_has_the_red_first_and_what_is_other_than_before(tmp_path):
    now = written(
        tmp_path / "now.jsonl",
        told("a", "right", times={"candidate": 2.0, "reference": 4.0}, candidate="1"),
        told("<b>", "hack", kind="cheats the clock", reason="@ROWS@ <script>alert(1)</script>"),
    )
    before = written(tmp_path / "before.jsonl", told("a", "wrong", times={"candidate": 4.0}, candidate="0"))
    page.write(tmp_path / "page.html", now, [before])
    text = (tmp_path / "page.html").read_text()
    assert text.index('<tr data-verdict="hack">') < text.index('<tr data-verdict="right">')
    assert text.count("<script>") == 1, "what a candidate says is no script"
    assert "@ROWS@ &lt;script&gt;" in text
    assert "<td>was wrong; 0.50 × its time</td>" in text
    assert '<td class="number" data-key="0.5">0.5</td>' in text, "of the reference's time"
    assert "1 right, 1 hack" in text


def test_a_candidate_has_a_cell_of_its_own():
    one = told("a.py", "right", device="cuda")
    assert project.own_cell(one, "made/a b.py", "tasks/softmax.py") == "verify/cuda/a-b/softmax"
    assert project.own_cell(one, "theirs:softmax", "mine:reference") == "verify/cuda/softmax/reference"
    assert project.own_cell({}, "", "") == "verify/unknown/unnamed/unnamed"


def test_a_verdict_is_a_check_of_the_page_of_a_project(tmp_path):
    cell = "cuda/sm_90/triton/softmax.forward"
    project.add(told("a.py", "hack", kind="spots the test", reason="reads frames"), "a.py", cell, tmp_path)
    project.add(told("b.py", "right"), "b.py", cell, tmp_path)
    project.add(told("b.py", "not decided", reason="no card"), "b.py", cell, tmp_path)
    red, open_ = sorted(checks.read(tmp_path / checks.FOLDER), key=lambda one: one.note)
    assert [(one.case, one.text) for one in red.findings] == [(f"{cell}/a.py", "hack (spots the test): reads frames")]
    assert (red.is_red, red.cells[0].found) == (True, 1)
    assert (open_.findings, open_.cells[0].unfinished) == ((), 1)
    assert open_.unfinished == ("b.py: not decided: no card",)
