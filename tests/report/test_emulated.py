"""The page, its files and the lines of a run say emulated with every state that an emulator or an interpreter gave."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest
from shown import Page
from suites import MATRIX, Suite

from kernel_matrix import judging, pipeline
from kernel_matrix.config.selection import Selection
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.report.terminal import summary
from kernel_matrix.run.progress import in_progress
from kernel_matrix.store.record import Record

TESTS = {
    "tests/test_holds.py": "def test_one(): pass\ndef test_two(): pass\n",
    "tests/test_fails.py": "def test_one(): assert 1 == 2\n",
    "tests/test_breaks.py": "def test_one(): raise RuntimeError('broken')\n",
    "tests/test_known.py": "def test_one(): assert 1 == 3\n",
    "tests/test_skips.py": "import pytest\ndef test_one(): pytest.skip('not here')\n",
    "tests/test_compares.py": """
        import numpy as np

        def test_one(matrix):
            x = np.ones((4, 4), np.float32)
            matrix.compare(x * 3, x.astype(np.float64) * 3, eager=x * 3, name="y")
    """,
}
EXPECTED = """
expectations:
  - where: { op: test_known }
    outcome: fail
    match: '1 == 3'
    reason: it stands for what is known to fail
    link: https://example.org
    owner: nobody
    until: 2099-01-01
"""
MARKED = {"test_holds", "test_fails", "test_breaks", "test_known", "test_compares"}


@pytest.fixture(scope="module", params=[True, False])
def shown(request, tmp_path_factory):
    """Return the dashboard of a suite, whether its lane is emulated, the project, and the lines of the run."""
    text = MATRIX + EXPECTED
    if request.param:
        text = text.replace("toolchains: [plain]", "toolchains: [{ toolchain: plain, emulated: true }]")
    suite = Suite.made(tmp_path_factory.mktemp("emulated"), TESTS, text)
    suite.run()
    project = suite.collected()
    plan = pipeline.select(project, Selection()).plan
    with judging.judged(project, plan, [project.results]) as judged:
        lines = [*summary(project.matrix, judged, lambda: project.rules)]
        dashboard = write_dashboard(project, judged)
    assert dashboard.differences == (), "the audit says the same"
    return request.param, project, lines


def test_every_state_that_ran_says_emulated_and_no_other_does(shown):
    emulated, project, _ = shown
    with (project.site / "compat.csv").open(newline="") as file:
        counted = {row["op"]: int(row["emulated"]) for row in csv.DictReader(file)}
    marked = {op for op, count in counted.items() if count}
    assert marked - {"suite"} == (MARKED if emulated else set())
    assert counted["test_holds"] == (2 if emulated else 0)
    compat = json.loads((project.site / "compat.json").read_text())
    assert {cell["op"]: cell["emulated"] for cell in compat["cells"]} == counted
    assert Page(project.site).overview["cells"]["emulated"] == [cell["emulated"] for cell in compat["cells"]]


def test_the_summary_the_badge_and_the_terminal_say_it(shown):
    emulated, project, lines = shown
    text = (project.site / "summary.md").read_text()
    rows = {line.split("|")[4].split()[0]: line for line in text.splitlines() if line.startswith("| here")}
    assert "held, emulated |" in rows["test&#95;holds"] or not emulated
    assert all((", emulated" in row) == (emulated and op.replace("&#95;", "_") in {*MARKED, "suite"})
               for op, row in rows.items()), rows  # fmt: skip
    assert ("were emulated." in text.splitlines()[2]) == emulated
    badge = json.loads((project.site / "badge.json").read_text())
    assert ("emulated" in badge["message"]) == emulated, badge
    assert ("emulated)" in lines[0]) == emulated, lines
    assert ("Nothing ran on hardware of the platforms that were asked for." in lines) == emulated


@pytest.mark.parametrize(
    ("outcome", "action", "case", "metrics", "facts", "word"),
    [
        ("pass", "run", "a/b/c/d.forward/e", {"y.max_abs": 0.0}, {}, "pass"),
        ("pass", "emulate", "a/b/c/d.forward/e", {"y.max_abs": 0.0}, {}, "pass (emulated)"),
        ("pass", "compile", "a/b/c/d.forward/e", {}, {"artifact.kind": "cubin"}, "compiled"),
        ("pass", "compile", "a/b/c/d.forward/e", {}, {"artifact.kind": "ptx-source"}, "lowered"),
        ("pass", "run", "a/b/c/d.tests/e", {}, {}, "held"),
        ("pass", "emulate", "a/b/c/d.tests/e", {}, {}, "held (emulated)"),
        ("pass", "run", "a/b/c/d.tests/e", {"y.max_abs": 0.0}, {}, "pass"),
        ("fail", "emulate", "a/b/c/d.tests/e", {}, {}, "fail (emulated)"),
        ("fail", "compile", "a/b/c/d.forward/e", {}, {}, "fail"),
        ("unavailable", "emulate", "a/b/c/d.tests/e", {}, {}, "unavailable"),
    ],
)
def test_progress_says_the_words_of_the_states(outcome, action, case, metrics, facts, word):
    record = replace(Record(case, outcome, action), metrics=metrics, facts=facts)
    assert in_progress(record) == word
    after_another = word.replace(word.partition(" ")[0], "flaky") if outcome == "pass" else word
    assert in_progress(replace(record, attempts=("fail",))) == after_another
