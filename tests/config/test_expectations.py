"""An expectation or an exclusion that has ended makes the run red, and the edit that takes it out is exact."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from common import END, Doubles, harness
from judges import judge, judged_files
from shown import Page

from kernel_matrix import judging, pipeline
from kernel_matrix.config.edits import Edit, edited
from kernel_matrix.results.present import Present
from kernel_matrix.store import junit
from kernel_matrix.store.record import Record

LAST_DAY = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
DAY_AFTER = datetime(2027, 1, 1, tzinfo=UTC)
EXPECTED = (
    "expectations:\n"
    "  # what the kernel wrong does\n"
    "  - where: { toolchain: TOOLCHAIN, tokens: TOKENS } # in one shape\n"
    "    outcome: fail\n"
    "    match: max_abs\n"
    "    reason: it is wrong on purpose\n"
    "    owner: the tests\n"
    "    link: lock.txt\n"
    "    until: UNTIL\n"
)


def expecting(doubles: Doubles, until="2026-12-31", toolchain="wrong", tokens="2") -> str:
    """Expect a failure; return the text of matrix.yaml without the entry."""
    path = doubles.root / "matrix.yaml"
    before = path.read_text()
    values = {"TOOLCHAIN": toolchain, "TOKENS": tokens, "UNTIL": until}
    text = EXPECTED
    for name, value in values.items():
        text = text.replace(name, value)
    path.write_text(f"{before}{text}# the end of the file\n")
    return f"{before}expectations: []\n# the end of the file\n"


@pytest.fixture
def compared(passing):
    """Return a function that compares results of a toolchain's cases: their outcomes by tokens."""

    def compare(doubles: Doubles, outcomes, now=LAST_DAY, toolchain="wrong", **versions: str):
        project = pipeline.load(doubles.root / "matrix.yaml")
        jobs = tuple(job for job in pipeline.plan(project, "quick").jobs if job.toolchain == toolchain)
        results = [result(passing, case, outcomes[case.axes["tokens"]], **versions) for job in jobs
                   for case in job.cases if case.axes["tokens"] in outcomes]  # fmt: skip
        planned = replace(pipeline.plan(project, "quick"), jobs=jobs)
        return judged_of(project, planned, results, now)

    return compare


def judged_of(project, planned, records, now):
    """Write records into one file, and judge it."""
    job = f"here.{records[0].job['toolchain']}"
    path = project.root / "results-of-a-test" / f"{job}.xml"
    path.parent.mkdir(exist_ok=True)
    junit.write(path, job, records, {"job": job, **records[0].job})
    return judged_files(project, planned, [path], now)


def result(passing, case, outcome="pass", **versions: str) -> Record:
    """Return the result of a case: one that passes, or one that fails as it is expected to."""
    record = passing(case)
    job = {**record.job, **{f"version.{name}": version for name, version in versions.items()}}
    return replace(record, outcome=outcome, message="" if outcome == "pass" else "max_abs is over", job=job)


def states(comparison) -> list[str]:
    return [verdict.state for cell in comparison.cells for verdict in cell.cases]


@pytest.mark.slow
def test_an_expectation_ends_with_its_last_day(doubles: Doubles, compared):
    expecting(doubles)
    outcomes = {1: "pass", 2: "fail", 3: "pass"}
    before = compared(doubles, outcomes)
    assert (states(before), before.is_red, before.ended) == (["pass", "known", "pass"], False, ())
    after = compared(doubles, outcomes, DAY_AFTER)
    assert states(after) == ["pass", "fail", "pass"]
    [ended] = after.ended
    assert (ended.state, ended.edit) == ("over", Edit("expectations", 0))
    assert "held until 2026-12-31" in ended.sentence
    assert "the tests, lock.txt" in ended.sentence
    assert after.cells[0].cases[1].reason == "max_abs is over (expected until 2026-12-31, which is over)"


@pytest.mark.slow
def test_an_expectation_that_is_over_makes_a_green_run_red(doubles: Doubles, compared):
    """Its case passes: nothing is red but the entry."""
    expecting(doubles)
    after = compared(doubles, {1: "pass", 2: "pass", 3: "pass"}, DAY_AFTER)
    assert set(states(after)) == {"pass"}
    assert after.is_red


@pytest.mark.slow
def test_an_expectation_ends_with_the_version_that_a_result_names(doubles: Doubles, compared):
    expecting(doubles, until="'numpy>=3'")
    outcomes = {1: "pass", 2: "fail", 3: "pass"}
    assert states(compared(doubles, outcomes, numpy="2.9")) == ["pass", "known", "pass"]
    assert states(compared(doubles, outcomes, numpy="3.0rc1")) == ["pass", "known", "pass"]
    assert states(compared(doubles, outcomes, numpy="3.0")) == ["pass", "fail", "pass"]


@pytest.mark.slow
def test_an_expectation_ends_with_the_version_in_the_lock_and_only_there(doubles: Doubles, compared):
    (doubles.root / "new.txt").write_text("numpy==3.1\n")
    doubles.edit("wrong: { backend: wrong, lock: lock.txt", "wrong: { backend: wrong, lock: new.txt")
    expecting(doubles, until="numpy>=3", toolchain="[wrong, good]")
    [ended] = compared(doubles, {2: "pass"}).ended
    assert "the lock of wrong has that" in ended.reason
    assert ended.edit == Edit("expectations", 0, "toolchain", ("good",))
    assert compared(doubles, {1: "pass", 2: "fail", 3: "pass"}, toolchain="good").is_red


def test_an_entry_whose_end_makes_its_versions_impossible_is_over_and_no_fault(doubles: Doubles):
    (doubles.root / "new.txt").write_text("numpy==3.1\n")
    pinned = "wrong: { backend: wrong, lock: new.txt, requires: ['numpy==3.1']"
    doubles.edit("wrong: { backend: wrong, lock: lock.txt, requires: [numpy]", pinned)
    expecting(doubles, until="numpy>=3\n    versions: ['numpy<3']")
    project = pipeline.load(doubles.root / "matrix.yaml")
    assert [state.state for state in judging.rule_states(project, {}, LAST_DAY.date())] == ["over"]


@pytest.mark.slow
def test_an_entry_that_is_over_does_not_disturb_a_run_of_other_cases(doubles: Doubles, compared):
    expecting(doubles)
    assert not compared(doubles, {1: "pass", 2: "pass", 3: "pass"}, DAY_AFTER, toolchain="good").is_red


@pytest.mark.slow
def test_an_exclusion_that_is_over_is_red_and_still_leaves_its_cases_out(doubles: Doubles, compared):
    path = doubles.root / "matrix.yaml"
    path.write_text(f"{path.read_text()}exclusions: [{{ where: {{ tokens: 2 }}, reason: it is too slow here, owner: "
                    "the tests, link: lock.txt, until: 2026-12-31 }]\n")  # fmt: skip
    outcomes = {1: "pass", 3: "pass"}
    assert not compared(doubles, outcomes).is_red
    after = compared(doubles, outcomes, DAY_AFTER)
    assert states(after) == ["pass", "excluded", "pass"]
    assert [state.name for state in after.ended] == ["exclusions[0]"]
    assert after.is_red


@pytest.mark.slow
def test_an_expectation_that_no_longer_fails_is_taken_out(doubles: Doubles, compared):
    expecting(doubles, tokens="[1, 2]")
    comparison = compared(doubles, {1: "pass", 2: "pass", 3: "pass"})
    assert states(comparison) == ["fixed", "fixed", "pass"]
    [ended] = comparison.ended
    assert (ended.state, ended.edit) == ("fixed", Edit("expectations", 0))
    assert "2 of its 2 cases pass" in ended.reason


@pytest.mark.slow
def test_an_expectation_that_no_longer_fails_in_part_is_narrowed(doubles: Doubles, compared, passing):
    expecting(doubles, tokens="[1, 2, 3]")
    [ended] = compared(doubles, {1: "pass", 2: "fail", 3: "fail"}).ended
    assert ended.edit == Edit("expectations", 0, "tokens", (2, 3))
    doubles.edit("axes: [tokens]", "axes: [tokens, width]")
    doubles.edit("- { tokens: [1, 2, 3] }", "- { tokens: [1, 2], width: [1, 2] }\n")
    project = pipeline.load(doubles.root / "matrix.yaml")
    [one, two, three, four] = [case for case in pipeline.plan(project, "quick").cases if case.cell.toolchain == "wrong"]
    of_all = [result(passing, case, "fail" if case in (one, four) else "pass") for case in (one, two, three, four)]
    [ended] = judged_of(project, pipeline.plan(project, "quick"), of_all, LAST_DAY).ended
    assert ended.edit is None
    assert "No single key of 'where' separates them" in ended.reason


@pytest.fixture
def day_after(monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr(judging, "clock", lambda: DAY_AFTER)


@pytest.mark.slow
def test_the_edit_is_printed_and_made_with_everything_else_as_it_was(doubles: Doubles, day_after):
    rest = expecting(doubles)
    path = doubles.root / "matrix.yaml"
    matrix, line = ("--matrix", str(path)), path.read_text().splitlines().index("  # what the kernel wrong does") + 2
    for command in (("check",), ("check", "--expectations")):
        done = harness(*command, *matrix)
        assert done.returncode == 1
        assert f"matrix.yaml:{line}: expectations[0] is over: it held until 2026-12-31" in done.stdout
        assert "-  - where: { toolchain: wrong, tokens: 2 } # in one shape\n" in done.stdout
        assert "+expectations: []" in done.stdout
        assert "kernel-matrix check --expectations --write" in done.stdout
    done = harness("check", "--expectations", "--write", *matrix)
    assert (done.returncode, path.read_text()) == (0, rest)
    assert harness("check", "--expectations", *matrix).returncode == 0
    assert harness("check", *matrix).returncode == 0


@pytest.mark.slow
def test_an_entry_that_matches_nothing_is_red_in_every_run(doubles: Doubles, monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)
    rest = expecting(doubles, until="'numpy>=99'", tokens="99")
    matrix = ("--matrix", str(doubles.root / "matrix.yaml"))
    done = harness("run", *matrix, "--toolchain", "good", "--executor", "current")
    assert done.returncode == 1
    assert "expectations[0] matches nothing" in done.stdout
    assert "-    match: max_abs\n" in done.stdout
    done = harness("report", *matrix, "--annotate")
    assert re.search(r"^::error file=matrix.yaml,line=\d+,title=expectation matches nothing::expect", done.stdout, re.M)
    assert "-    match: max_abs\n" in done.stdout
    assert "expectations[0] matches nothing" in done.stdout
    assert "expectations[0] matches nothing" in Page(doubles.root / "build" / "site").text
    assert "matches nothing" in harness("check", "--expectations", *matrix).stdout
    assert harness("check", "--expectations", "--write", *matrix).returncode == 0
    assert (doubles.root / "matrix.yaml").read_text() == rest


@pytest.mark.slow
def test_the_list_says_the_state_of_every_entry(doubles: Doubles, day_after):
    doubles.edit("limits:", f"exclusions: [{{ where: {{ tokens: 3 }}, reason: it is too slow here, {END} }}]\nlimits:")
    expecting(doubles)
    done = harness("check", "--expectations", "--matrix", str(doubles.root / "matrix.yaml"))
    over, _, holds = done.stdout.splitlines()[:3]
    assert over.startswith("over            matrix.yaml:")
    assert over.endswith("expectations[0]: until 2026-12-31, 1 case, the tests, lock.txt")
    assert holds == "holds           matrix.yaml:2 exclusions[0]: until numpy>=99, 13 cases, the tests, lock.txt"


FLOW = "expectations: [{ where: { a: 1 } }, { where: { b: [2, x] }, c: yes }] # a comment\nz: 2\n"
BLOCK = """\
exclusions:
- where: {a: 1}   # one
  reason: >-
    some
    text

# of the second
- where:
    b: [1, 2] # two
  link: x
# the end
z: 2
"""


@pytest.mark.parametrize(
    ("text", "edits", "after"),
    [
        (FLOW, [Edit("expectations", 0)], "expectations: [{ where: { b: [2, x] }, c: yes }] # a comment\nz: 2\n"),
        (FLOW, [Edit("expectations", 1)], "expectations: [{ where: { a: 1 } }] # a comment\nz: 2\n"),
        (FLOW, [Edit("expectations", 0), Edit("expectations", 1)], "expectations: [] # a comment\nz: 2\n"),
        (FLOW, [Edit("expectations", 1, "b", (2,))], FLOW.replace("[2, x]", "2")),
        (FLOW, [Edit("expectations", 0, "b", ("bf16", "no"))], FLOW.replace("a: 1", 'a: 1, b: [bf16, "no"]')),
        (BLOCK, [Edit("exclusions", 0)], "exclusions:\n" + BLOCK[BLOCK.index("text") + 5:]),
        (BLOCK, [Edit("exclusions", 1)], BLOCK.replace("- where:\n    b: [1, 2] # two\n  link: x\n", "")),
        (BLOCK, [Edit("exclusions", 1, "b", (1,)), Edit("exclusions", 0, "a", (True, 0.1))],
         BLOCK.replace("[1, 2]", "1").replace("{a: 1}", "{a: [true, 0.1]}")),
        (BLOCK, [Edit("exclusions", 1, "op", ("x",))], BLOCK.replace("# two", "# two\n    op: x")),
    ],
)  # fmt: skip
def test_an_edit_changes_nothing_else(text, edits, after):
    assert edited(text, edits) == after


@pytest.mark.slow
def test_a_date_that_has_passed_does_not_concern_a_comparison_without_a_present(doubles: Doubles, passing):
    expecting(doubles)
    project = pipeline.load(doubles.root / "matrix.yaml")
    case = next(case for case in pipeline.plan(project, "quick").cases if case.expectations)
    record = result(passing, case, "fail")
    assert judge(case, [record]).state == "known"
    assert judge(case, [record], Present(LAST_DAY)).state == "known"
    assert judge(case, [record], Present(DAY_AFTER)).state == "fail"
