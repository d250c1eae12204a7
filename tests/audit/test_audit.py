"""The audit finds every figure of the page and of compat.json that does not follow from the results."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from audited import HEAD, LOCK, NOW
from checkouts import AtCommit
from common import ROOT, harness
from loops import at_least
from shown import Page
from together import first_are_quick

from kernel_matrix import audit as audits
from kernel_matrix.audit import audit
from kernel_matrix.audit.figures import LONG, of_undiagnosed
from kernel_matrix.audit.plan import planned as plan_by_loops
from kernel_matrix.audit.states import Now
from kernel_matrix.base.errors import UserError
from kernel_matrix.config.plan import plan
from kernel_matrix.report.document import Document
from kernel_matrix.results.states import STATES

# The figures that do not come from the results: the history of lanes has them, or they are settings.
ELSEWHERE = re.compile(
    r"schema_version|silent|history|left_out|lanes/\d+/history|jobs|platforms|toolchains|run_notes|lock$"
)


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that keeps its first answer."""
    answers: list[Any] = []

    def answer(*given: Any) -> Any:
        if not answers:
            answers.append(function(*given))
        return answers[0]

    return answer


@pytest.fixture
def audited(reported_results, one_op, tmp_path, monkeypatch):
    """Return a copy of the site that a test may edit, and the function that audits it.

    It reads the results and makes the plan once: a test edits the site, before it audits for the first time or after.
    """
    planned, files, site = reported_results
    for name in ("choose", "plan_of"):
        monkeypatch.setattr(audits, name, once(getattr(audits, name)))
    shutil.copytree(site, tmp_path / "site")
    entries = [(name, entry.toolchain) for name, platform in one_op.platforms.items() for entry in platform.entries]
    now = Now(NOW, dict.fromkeys(entries, LOCK), AtCommit(HEAD))
    asked = {case.id for case in planned.cases}
    return tmp_path / "site", lambda: audit(tmp_path / "site", files, one_op, ROOT, asked, now)


@pytest.mark.slow
def test_the_page_of_results_that_end_in_all_ways_has_no_difference(audited):
    site, differences = audited
    shown = json.loads((site / "compat.json").read_text())
    states = set(shown["run"]["cases_by_state"])
    assert {"pass", "fail", "error", "flaky", "compiled", "unavailable", "excluded", "missing"} <= states
    assert shown["run"]["stale_cases"]
    assert shown["speed"]
    assert any(lane["canaries"] for lane in shown["lanes"])
    assert all(0 < lane["determinism"]["differing"] < lane["determinism"]["repeats"]
               for lane in shown["lanes"] if lane["determinism"])  # fmt: skip
    assert any(lane["determinism"] for lane in shown["lanes"])
    assert differences() == []


def numbers_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every number."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers_of(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from numbers_of(part, (*path, index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def edited(value: Any, path: tuple[Any, ...]) -> Any:
    """Return a copy in which one number is another."""
    copy = json.loads(json.dumps(value))
    part = copy
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = part[path[-1]] * 1.01 + 1
    return copy


def kind_of(path: tuple[Any, ...]) -> str:
    """Return a path without the places in lists and the names of outputs, so that like figures are one kind."""
    return "/".join("*" if isinstance(key, int) else str(key) for key in path)


@pytest.mark.slow
def test_every_number_of_compat_json_is_held_to_the_results(audited):
    """Edit one number of each kind: the audit names it."""
    site, differences = audited
    shown = json.loads((site / "compat.json").read_text())
    kinds = {kind_of(path): path for path in numbers_of(shown) if not ELSEWHERE.search(kind_of(path))}
    assert len(kinds) > 50
    unseen = []
    for kind, path in kinds.items():
        (site / "compat.json").write_text(json.dumps(edited(shown, path)))
        if not differences():
            unseen.append(kind)
    assert unseen == []
    (site / "compat.json").write_text(json.dumps(shown))
    assert differences() == []


@pytest.mark.slow
def test_every_number_of_a_case_on_the_page_is_held_to_the_results(audited):
    site, differences = audited
    page = Page(site)
    chunks = {number: page.tables(f"cells/{number}") for number in range(len(page.chunks))}
    for number, chunk in chunks.items():
        page.put_tables(f"cells/{number}", chunk)
    assert differences() == []
    paths = {}
    for number, chunk in chunks.items():
        for place, row in enumerate(chunk["cases"]):
            for path in numbers_of({key: row.get(key) for key in ("seconds", "artifact", "times")}):
                paths.setdefault(" ".join(path), (number, ("cases", place, *path)))
        for place, row in enumerate(chunk["outputs"]):
            for (figure,) in numbers_of({key: value for key, value in row.items() if key != "case"}):
                paths.setdefault(f"outputs {figure}", (number, ("outputs", place, figure)))
    assert {"seconds", "outputs max_abs", "outputs noise_ratio", "artifact registers"} <= paths.keys()
    assert {"times run", "times ratio", "times rounds"} <= paths.keys()
    unseen = []
    for kind, (number, path) in paths.items():
        page.put_tables(f"cells/{number}", edited(chunks[number], path))
        if not differences():
            unseen.append(kind)
        page.put_tables(f"cells/{number}", chunks[number])
    assert unseen == []
    assert differences() == []


@pytest.mark.slow
def test_every_column_of_the_overview_is_held_to_the_cells(audited):
    """Edit one entry of each column: the audit names it."""
    site, differences = audited
    shown = Page(site).overview
    letters = {state["letter"] for state in shown["states"]}
    unseen = []
    for name, values in at_least(15, shown["cells"].items()):
        columns = values if isinstance(values, dict) else {"": values}
        for key, column in columns.items():
            place = next((at for at, value in enumerate(column) if value not in (None, "")), None)
            if place is None:
                assert name == "in_journal"
                continue
            old = column[place]
            if isinstance(old, str):
                column[place] = next(letter for letter in letters if letter != old[0]) + old[1:]
            else:
                column[place] = (not old) if isinstance(old, bool) else old + 1
            put(site, "overview", shown)
            with contextlib.suppress(UserError):  # the page cannot be read: an index to nowhere
                if not differences():
                    unseen.append(f"{name} {key}")
            column[place] = old
    assert unseen == []
    put(site, "overview", shown)
    assert differences() == []


@pytest.mark.slow
def test_every_other_figure_of_the_overview_is_held_to_compat_json(audited):
    site, differences = audited
    shown = Page(site).overview
    rest = {key: value for key, value in shown.items() if key not in ("cells", "ops", "schema_version")}
    kinds = {kind_of(path): path for path in numbers_of(rest)}
    assert len(kinds) > 20
    unseen = []
    for kind, path in kinds.items():
        put(site, "overview", {**shown, **edited(rest, path)})
        if not differences():
            unseen.append(kind)
    assert unseen == []
    put(site, "overview", shown)
    assert differences() == []


def put(site, name, value):
    """Write a file of data."""
    (site / "data" / f"{name}.js").write_text(f'kernelMatrix.put("{name}",{json.dumps(value)});\n')


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "words"),
    [
        ("data/overview.js", r'"headline":"Of \d+ cells', '"headline":"Of 77 cells', "data/overview.js: headline"),
        ("data/speed.js", r'"ratio":2.0', '"ratio":9.0', "data: speed"),
        ("badge.json", r"\d+ fail", "7 fail", "badge.json: message: 7 fail"),
    ],
)
@pytest.mark.slow
def test_a_number_that_is_edited_in_the_text_is_named_with_both_values(audited, file, pattern, replacement, words):
    site, differences = audited
    text = (site / file).read_text()
    assert re.search(pattern, text)
    (site / file).write_text(re.sub(pattern, replacement, text, count=1))
    [found] = differences()
    assert words in found
    assert " is shown, and the results make " in found


@pytest.mark.parametrize("state", STATES)
def test_a_cell_that_is_shown_in_another_state_is_named(audited, state):
    site, differences = audited
    shown = json.loads((site / "compat.json").read_text())
    cell = next(cell for cell in shown["cells"] if cell["state"] != state)
    before, cell["state"] = cell["state"], state
    (site / "compat.json").write_text(json.dumps(shown))
    assert any(cell["id"] in text and before in text for text in differences())


def test_a_case_that_vanished_from_the_page_is_named(audited):
    site, differences = audited
    chunk = Page(site).tables("cells/0")
    chunk["cases"][0]["name"] = "tokens0"
    Page(site).put_tables("cells/0", chunk)
    found = "\n".join(differences())
    assert "planned cases that are absent" in found
    assert "cases that are not planned" in found


def test_a_result_file_that_was_changed_afterwards_is_seen(audited, reported_results):
    _, files, _ = reported_results
    _, differences = audited
    path = next(file for file in files if file.name == "cpu-llvm.reference.xml")
    text = path.read_text()
    try:
        path.write_text(
            text.replace('name="metric.h_in.max_abs" value="1e-07"', 'name="metric.h_in.max_abs" value="0.5"', 1)
        )
        assert any("state: pass is shown, and the results make error" in text for text in differences()), differences()
    finally:
        path.write_text(text)


@pytest.mark.slow
def test_the_plan_that_is_made_by_loops_is_the_plan(matrix):
    for tier in ("quick", "full"):
        assert set(plan_by_loops(matrix.model_dump(), tier)) == {case.id for case in plan(matrix, tier).cases}


def test_every_key_of_the_document_is_audited_or_is_no_figure():
    """A new key fails here: audit it, or say why it is no figure of the results."""
    words = {"schema_version", "platforms", "problems", "notes", "run_notes", "toolchains", "jobs", "silent",
             "silent_days", "checks", "agreement"}  # fmt: skip  # no state depends on checks, or on samples
    assert set(Document.model_fields) - words == {"run", "lanes", "stale", "speed", "bench", "undiagnosed", "cells"}


@pytest.mark.slow
def test_the_command_ends_with_1_where_a_figure_differs_and_with_2_without_a_page(doubles):
    options = ("--matrix", str(doubles.root / "matrix.yaml"))
    (doubles.root / "build" / "results").mkdir(parents=True)
    assert harness("audit", *options).returncode == 2
    assert harness("report", *options).returncode == 1, "all cases are missing"
    done = harness("audit", *options)
    assert (done.returncode, done.stdout[:15]) == (0, "all figures of "), done.stdout
    done = harness("audit", str(doubles.root / "gone"), *options)
    assert (done.returncode, done.stdout) == (2, ""), "no figure can differ from results that are not there"
    assert f"{doubles.root / 'gone'}: there is no such results folder. " in done.stderr
    path = doubles.root / "build" / "site" / "compat.json"
    path.write_text(re.sub(r'"cases": \d+', '"cases": 4711', path.read_text(), count=1))
    done = harness("audit", *options)
    assert done.returncode == 1
    assert "compat.json: " in done.stdout
    assert "4711 is shown, and the results make" in done.stdout


@pytest.mark.slow
def test_a_report_with_a_wrong_figure_ends_with_1_and_says_which(doubles, monkeypatch):
    options = ("--matrix", str(doubles.root / "matrix.yaml"))
    (doubles.root / "build" / "results").mkdir(parents=True)
    monkeypatch.setattr("kernel_matrix.report.make_document._by_evidence", lambda cells: {"compiled": 4711})
    done = harness("report", *options)
    assert done.returncode == 1
    assert "audit: compat.json: run.cells_by_evidence: {'compiled': 4711} is shown, and the results make" in done.stderr


@pytest.mark.parametrize(("most", "note"), first_are_quick(1, [(1, True), (10_000, False)]))
@pytest.mark.slow
def test_of_a_large_plan_a_sample_is_audited_also_where_few_results_are_there(doubles, monkeypatch, most, note):
    (doubles.root / "build" / "results").mkdir(parents=True)
    monkeypatch.setattr("kernel_matrix.audit.MOST_PLANNED", most)
    monkeypatch.setattr("kernel_matrix.report.make_document._by_evidence", lambda cells: {"compiled": 4711})
    done = harness("report", "--matrix", str(doubles.root / "matrix.yaml"))
    assert "audit: compat.json: run.cells_by_evidence: {'compiled': 4711} is shown" in done.stderr, "it is a sum"
    notes = json.loads((doubles.root / "build" / "site" / "compat.json").read_text())["notes"]
    told = "The figures of this page were not computed a second time, apart from the sums over all cells: no job has 1"
    assert any(text.startswith(told) for text in notes) == note


def test_a_folder_without_a_report_is_an_error_of_the_user(matrix, tmp_path):
    with pytest.raises(UserError, match="no report that can be audited"):
        audit(tmp_path, [], matrix, ROOT)


def test_texts_that_differ_behind_the_cut_are_one_error_for_the_audit():
    texts = ["x" * LONG + end for end in "ab"]
    shown = [{"stage": "launch", "message": text, "cases": 2} for text in texts]
    results = [
        {"state": "error", "stage": "launch", "message": text, "reason": "", "diagnosis": {"rule": ""}}
        for text in texts * 2
    ]
    assert list(of_undiagnosed(shown, [{"results": results}])) == []
