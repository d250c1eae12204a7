"""A pull request shows what it changes: in a summary that escapes all text of results, and on the lines that fail."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from common import few_cells
from judges import compare, write_site
from records import TRITON, all_cases

from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import plan
from kernel_matrix.report import annotations as annotate
from kernel_matrix.report import markdown
from kernel_matrix.report.difference import difference
from kernel_matrix.report.document import CellOutline, Outline, RunOutline
from kernel_matrix.report.runs import read_site
from kernel_matrix.report.sentences import in_lines
from kernel_matrix.results.states import RED
from kernel_matrix.store.record import Record

TRACEBACK = """Traceback (most recent call last):
  File "./src/kernel_matrix/plugin.py", line 170, in pytest_pyfunc_call
  File "./tests/mhc/test_forward.py", line 42, in test_forward
  File "~/envs/lib/python3.12/site-packages/torch/x.py", line 7, in x
AssertionError: out
"""


@pytest.fixture(scope="module")
def planned(matrix):
    return few_cells(plan(matrix, "quick"))


@pytest.fixture
def site(matrix, planned, tmp_path):
    """Write a site of some records into a folder of that name."""

    def write(name, records, against=None):
        write_site(matrix, planned, records, tmp_path / name, against=against)
        return tmp_path / name

    return write


def red(comparison):
    return [verdict for cell in comparison.cells for verdict in cell.cases if verdict.state in RED]


def fail(records, message="out: max_abs 1 is over 0.1"):
    return [replace(r, outcome="fail", message=message, detail=TRACEBACK) if r.case.startswith(f"{TRITON}/") else r
            for r in records]  # fmt: skip


@pytest.mark.slow
def test_a_pull_request_is_shown_what_it_breaks_and_not_the_whole_table(site, planned, passing):
    good = all_cases(planned, passing)
    summary = (site("new", fail(good), site("old", good)) / "summary.md").read_text()
    assert "**1 newly red**" in summary
    assert "## Newly red" in summary
    assert "out: max&#95;abs 1 is over 0.1" in summary
    assert f"kernel-matrix run --platform cuda --case {TRITON}" in summary
    assert summary.count("\n|") == 3, "a head, its line, and one cell"


@pytest.mark.slow
def test_what_a_pull_request_mends_and_what_it_loses_is_shown_too(site, planned, passing):
    good = all_cases(planned, passing)
    mended = (site("new", good, site("old", fail(good))) / "summary.md").read_text()
    assert "1 no longer red" in mended
    lost = [Record(r.case, "unavailable", message="no machine") if r.case.startswith(f"{TRITON}/") else r for r in good]
    summary = (site("less", lost, site("more", good)) / "summary.md").read_text()
    assert "Otherwise changed" in summary
    assert "unavailable (planned)" in summary


@pytest.mark.slow
def test_no_difference_is_said(site, planned, passing):
    good = all_cases(planned, passing)
    summary = (site("new", good, site("old", good)) / "summary.md").read_text()
    assert summary.splitlines()[2].startswith("No cell differs from ")


def test_a_folder_without_a_report_is_bad_input(tmp_path):
    with pytest.raises(UserError, match=r"compat\.json: No such file"):
        read_site(tmp_path)
    (tmp_path / "compat.json").write_text(json.dumps({"run": 1}))
    with pytest.raises(UserError, match="It is no report that can be compared"):
        read_site(tmp_path)


HOSTILE = "``` \n# Approved\n| <img src=x> | [a](javascript:b) @everyone ````\n::error::x"


@pytest.mark.slow
def test_a_summary_cannot_be_broken_out_of(site, planned, passing):
    summary = (site("x", fail(all_cases(planned, passing), HOSTILE)) / "summary.md").read_text()
    fence = "`" * 5
    block = summary[summary.index(f"{fence}text") :]
    assert "# Approved" in block[: block.index(f"\n{fence}\n")]
    assert not [char for char in "`|<>[]@\n" if char in markdown.cell(HOSTILE)]


@pytest.mark.slow
def test_a_summary_stays_within_what_is_shown_and_says_that_it_was_cut(site, planned):
    lines = "\n".join(f"| a line of the table | {number} |" for number in range(60_000))
    cut = markdown.within(lines)
    assert len(cut.encode()) <= markdown.MOST_BYTES < len(lines.encode())
    assert cut.rstrip().endswith("has all of it.")
    assert cut.splitlines()[-3].endswith(" |"), "no line is cut in two"
    every = [Record(case.id, "error", "run", "launch", "x" * 1500) for case in planned.cases]
    assert (site("large", every) / "summary.md").stat().st_size <= markdown.MOST_BYTES


@pytest.mark.slow
def test_an_annotation_stands_on_the_suite_s_innermost_line(matrix, planned, passing):
    [note] = annotate.annotate(matrix, red(compare(planned, fail(all_cases(planned, passing)))))[:1]
    assert note.startswith(
        "::error file=tests/mhc/test_forward.py,line=42,title=triton-3.7 on sm_90%3A fail::out: max_abs"
    )
    assert "%0ARepeat it: kernel-matrix run --platform cuda --case" in note


@pytest.mark.slow
def test_annotations_are_no_more_than_are_shown_and_say_how_many_are_left(matrix, planned):
    records = [Record(case.id, "error", "run", "launch", f"message {n}") for n, case in enumerate(planned.cases[:200])]
    notes = annotate.annotate(matrix, red(compare(replace(planned, jobs=planned.jobs[:3]), records)))
    assert len(notes) == 10
    assert "more cases are red, for" in notes[-1]


@pytest.mark.slow
def test_a_message_starts_no_command_of_its_own(matrix, planned, passing):
    hostile = fail(all_cases(planned, passing), "a%0A::c\r\n::add-mask::b")
    notes = annotate.annotate(matrix, red(compare(planned, hostile)))
    assert all(line.startswith("::error") for note in notes for line in note.splitlines())
    assert "%250A" in notes[0]


def test_a_traceback_that_points_outside_the_suite_gives_no_line():
    assert annotate.place('File "./tests/mhc/../../etc/x.py", line 3', "tests/mhc") == ("", 0)
    assert annotate.place("no traceback", "tests/mhc") == ("", 0)


KERNELS = {
    "a kernel's line below the suite's": (
        TRACEBACK.replace("~/envs/lib/python3.12/site-packages/torch/x.py", "./src/mhc/backends/triton/kernel.py"),
        ("src/mhc/backends/triton/kernel.py", 7),
    ),
    "pytest's short form": (
        "tests/test_x.py:4: in test_a\n    f(1)\nfast/kernels.py:12: in f\n    raise ValueError\nE   ValueError\n",
        ("fast/kernels.py", 12),
    ),
    "a library's line under it": (
        "tests/test_x.py:4: in test_a\n../lib/site-packages/torch/x.py:7: in x\nE   ValueError\n",
        ("tests/test_x.py", 4),
    ),
    "gcc": ("tests/test_x.py:4: in test_a\nE   AssertionError: csrc/k.cpp:31:9: error: expected\n", ("csrc/k.cpp", 31)),
    "nvcc": ('  File "./tests/mhc/a.py", line 4, in a\n./csrc/k.cu(12): error: expected a ";"\n', ("csrc/k.cu", 12)),
    "generated code": ("build/cache/k.cu(12): error: x\n/tmp/k.cu(12): error: x\n../k.cu(1): error: x", ("", 0)),
    "a warning": ("./csrc/k.cu(12): warning #20: an error is near", ("", 0)),
}


@pytest.mark.parametrize("name", KERNELS)
def test_an_annotation_stands_on_the_kernel_s_line_where_that_is_known(name):
    detail, where = KERNELS[name]
    assert annotate.place(detail, "tests/mhc") == where


# A cell before and now (state, evidence, emulated cases), and what is shown of it; nothing where it is as it was.
EMULATED = {
    "it held in an emulator, and holds": (
        ("held", "held", 2),
        ("held", "held", 0),
        "held (held, emulated) -> held (held)",
    ),
    "it holds in an emulator now": (("held", "held", 0), ("held", "held", 1), "held (held) -> held (held, emulated)"),
    "it passes on a device": (("pass", "emulated", 1), ("pass", "ran", 0), "pass (emulated) -> pass (ran)"),
    "one of two was emulated": (("pass", "ran", 0), ("pass", "emulated", 1), "pass (ran) -> pass (emulated)"),
    "a known failure": (("known", "emulated", 1), ("known", "ran", 0), "known (emulated) -> known (ran)"),
    "an error": (("error", "planned", 1), ("error", "planned", 0), "error (planned, emulated) -> error (planned)"),
    "it was emulated, and is": (("held", "held", 1), ("held", "held", 2), ""),
}


@pytest.mark.parametrize("how", EMULATED)
def test_what_is_emulated_is_told_from_what_ran(how):
    before, now, words = EMULATED[how]
    outlines = [
        Outline(
            schema_version=1,
            run=RunOutline(tier="quick", created="2026-01-01", commits=()),
            cells=(CellOutline(id="a", state=state, evidence=evidence, emulated=number),),
        )
        for state, evidence, number in (before, now)
    ]
    found = difference(*outlines)
    assert [f"{one.before} -> {one.after}" for one in found.other] == ([words] if words else [])
    lost = "ran" in before and "ran" not in now
    for text in ("\n".join(in_lines(found)), markdown.runs(found, "before", "now")):
        assert ("nothing differs" in text.lower()) == (not words), text
        assert all(state in text for state in words.split(" -> "))
        assert ("changed" in text.lower()) == bool(words and not lost)
