"""A result counts as a present one only if the checkout, the locks, the versions and the clock agree with it."""

from __future__ import annotations

import subprocess
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from test_compare import TRITON, case_of, compiled

from kernel_matrix.base import git
from kernel_matrix.config.concern import Concerned
from kernel_matrix.config.plan import plan
from kernel_matrix.results.compare import compare, judge
from kernel_matrix.results.present import Pins, Present, present
from kernel_matrix.results.record import Record

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
HEAD, OLD, STRANGE = "a" * 12, "b" * 12, "c" * 12
LOCK = "1" * 64


@pytest.fixture(scope="module")
def planned(matrix):
    return plan(matrix, "quick")


@pytest.fixture
def case(planned):
    return case_of(planned, TRITON)


@pytest.fixture
def measured(case, passing):
    """Make the record of a run on a commit, in an environment of the present lock."""

    def make(**job: str) -> Record:
        record = passing(case)
        facts = {"commit": HEAD, "started": "2026-05-01T11:00:00Z", "lock.sha256": LOCK, "version.triton": "3.6.0"}
        return replace(record, job={**record.job, **facts, **{name.replace("_", "."): v for name, v in job.items()}})

    return make


def here(**changes) -> Present:
    known = {HEAD: Concerned(), OLD: Concerned(toolchains={"triton-3.6": "kernels/triton/a.py"}), STRANGE: None}
    pins = {"triton-3.6": Pins("locks/triton.txt", LOCK, ("triton==3.6.*",))}
    return replace(Present(NOW, HEAD, True, pins, known), **changes)


def test_a_result_of_the_present_is_not_stale(case, measured):
    verdict = judge(case, [measured()], here())
    assert (verdict.state, verdict.stale) == ("pass", "")


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ({"commit": OLD}, f"kernels/triton/a.py was changed since commit {OLD}"),
        ({"commit": STRANGE}, f"commit {STRANGE} is not in this checkout"),
        ({"commit": ""}, "it names no commit"),
        ({"commit": f"{HEAD}+changes"}, f"it is of commit {HEAD} with changes that are in no commit"),
        ({"lock_sha256": "2" * 64}, "it was measured with another locks/triton.txt (sha256 222222222222)"),
        ({"version_triton": "3.5.1"}, "its versions do not meet triton==3.6.*"),
        ({"started": "2099-01-01T00:00:00Z"}, "it started at 2099-01-01T00:00:00Z, which is in the future"),
        ({"started": "tomorrow"}, "its start time 'tomorrow' cannot be read"),
    ],
)
def test_what_differs_from_the_present_makes_a_result_stale_and_is_said(case, measured, job, reason):
    verdict = judge(case, [measured(**job)], here())
    assert (verdict.state, verdict.evidence, verdict.stale) == ("pass", "ran", reason)


def test_a_change_that_does_not_concern_the_toolchain_makes_nothing_stale(case, measured):
    other = here(changed={OLD: Concerned(toolchains={"inductor": "kernels/inductor/a.py"}, platforms={"rocm": "x"})})
    assert judge(case, [measured(commit=OLD)], other).stale == ""
    everything = here(changed={OLD: Concerned(everything="matrix.yaml")})
    assert judge(case, [measured(commit=OLD)], everything).stale == f"matrix.yaml was changed since commit {OLD}"


def test_clocks_may_differ_by_some_minutes(case, measured):
    soon = (NOW + timedelta(minutes=5)).isoformat()
    assert judge(case, [measured(started=soon)], here()).stale == ""


def test_a_working_tree_with_changes_agrees_with_what_was_measured_in_it(case, measured):
    changed = f"{HEAD}+changes"
    assert judge(case, [measured(commit=changed)], here(commit=changed)).stale == ""


def test_a_copy_without_history_knows_its_own_commit_only(case, measured):
    copy = here(commit=HEAD + "0" * 28, is_checkout=False, changed={})
    assert judge(case, [measured()], copy).stale == "", "a shortened name is the same commit"
    assert "this is aaaaaaaaaaaa, without its history" in judge(case, [measured(commit=OLD)], copy).stale


def test_outside_a_checkout_nothing_is_known_of_commits_and_that_is_said(planned, case, measured):
    nowhere = here(commit="", is_checkout=False, changed={})
    comparison = compare(planned, [measured(commit=STRANGE)], nowhere)
    assert not any(cell.stale for cell in comparison.cells)
    assert comparison.notes == ("This is no git checkout: whether a result is of another commit is not known.",)


def test_what_was_not_measured_is_not_stale(case):
    assert judge(case, [Record(case.id, "unavailable", message="no device")], here()).stale == ""


def test_a_stale_record_decides_only_where_it_tried_more_than_the_present_ones(case, measured):
    wrong = replace(measured(commit=OLD), outcome="fail", message="x")
    assert judge(case, [wrong, measured()], here()).state == "pass", "of equals the present one decides"
    now = replace(compiled(case), job=measured().job)
    verdict = judge(case, [measured(commit=OLD), now], here())
    assert (verdict.state, bool(verdict.stale)) == ("pass", True)
    broken = Record(case.id, "error", "compile", "compile", "no", job=measured().job)
    assert judge(case, [measured(commit=OLD), broken], here()).state == "error", "no old success hides a present error"


def of_all_cells(planned, passing, digests):
    """Make a passing record of one case in every cell of its operator, with these inputs in turn."""
    first = case_of(planned, TRITON)
    cases = [c for c in planned.cases if (c.cell.op, c.cell.direction, c.name, c.exclusion, c.expectations) ==
             (first.cell.op, first.cell.direction, first.name, None, ()) and c.cell.action != "compile"]  # fmt: skip
    digests = [*digests, *[digests[-1]] * (len(cases) - len(digests))]
    return [replace(passing(c), facts={"inputs.sha256": digest}) for c, digest in zip(cases, digests, strict=True)]


def verdict_of(comparison, record):
    return next(v for cell in comparison.cells for v in cell.cases if v.case.id == record.case)


def test_other_inputs_than_most_results_of_the_case_have_are_refused(planned, passing):
    records = of_all_cells(planned, passing, ["odd", "even"])
    comparison = compare(planned, records)
    refused = verdict_of(comparison, records[0])
    assert (refused.state, refused.evidence) == ("missing", "planned")
    assert refused.reason == "refused: other inputs (odd) than most results of the same case have (even)"
    assert verdict_of(comparison, records[1]).state == "pass"
    assert Counter(v.state for c in comparison.cells for v in c.cases)["pass"] == len(records) - 1


def test_where_two_inputs_are_equally_frequent_none_is_taken(planned, passing):
    records = of_all_cells(planned, passing, ["odd", "even"])[:2]
    comparison = compare(planned, records)
    for record in records:
        assert verdict_of(comparison, record).state == "missing"
        assert "than as many other results of the same case have" in verdict_of(comparison, record).reason


def test_another_machine_s_result_with_the_common_inputs_still_counts(planned, passing):
    records = of_all_cells(planned, passing, ["even"])
    other = replace(records[0], outcome="fail", message="wrong", facts={"inputs.sha256": "odd"})
    assert verdict_of(compare(planned, [other, *records]), other).state == "pass"


def test_the_present_s_inputs_are_not_outvoted_by_stale_ones(planned, passing):
    records = of_all_cells(planned, passing, ["new", "old"])
    records = [replace(r, job={**r.job, "commit": HEAD if r.facts["inputs.sha256"] == "new" else STRANGE})
               for r in records]  # fmt: skip
    comparison = compare(planned, records, here(toolchains={}))
    assert verdict_of(comparison, records[0]).state == "pass"
    assert verdict_of(comparison, records[1]).state == "missing"


def sh(root: Path, *command: str) -> str:
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(doubles, monkeypatch) -> Path:
    """Make the doubles a git repository with one commit."""
    monkeypatch.delenv("KERNEL_MATRIX_COMMIT", raising=False)
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@example.org")
    sh(doubles.root, "git", "init", "-q")
    sh(doubles.root, "git", "add", "-A")
    sh(doubles.root, "git", "commit", "-qm", "one")
    return doubles.root


def test_a_checkout_knows_what_was_changed_since_each_commit_of_the_records(repository, doubles, monkeypatch):
    first = sh(repository, "git", "rev-parse", "--short=12", "HEAD")
    (repository / "README.md").write_text("text\n")
    sh(repository, "git", "add", "-A")
    sh(repository, "git", "commit", "-qm", "two")
    (repository / "new.py").write_text("")
    asked = []
    real = git.changed_since
    monkeypatch.setattr(git, "changed_since", lambda root, commit: asked.append(commit) or real(root, commit))
    records = [Record("a", "pass", job={"commit": commit}) for commit in (first, f"{first}+changes", STRANGE) * 3]
    made = present(doubles.matrix, repository, [*records, Record("a", "pass", job={"commit": "--output=x"})])
    assert made.is_checkout
    assert made.commit.endswith("+changes")
    assert made.changed[first] == Concerned(everything="new.py"), "README.md concerns nobody"
    assert made.changed[STRANGE] is None
    assert made.changed["--output=x"] is None, "the name of a commit is never an option"
    assert sorted(asked) == sorted({first, STRANGE, "--output=x"}), "git is asked once for each commit"
    without = present(doubles.matrix, repository, records, [repository / "new.py"])
    assert without.changed[first] == Concerned(), "a result file is no change of the source"
    assert {pins.sha256 for pins in made.toolchains.values()} == {
        sha256((repository / "lock.txt").read_bytes()).hexdigest()
    }


def test_what_no_job_gets_to_know_of_the_matrix_makes_nothing_stale(repository, doubles):
    first = sh(repository, "git", "rev-parse", "--short=12", "HEAD")
    records = [Record("a", "pass", job={"commit": first})]
    with (repository / "matrix.yaml").open("a") as matrix:
        matrix.write("ci: { silent_days: 3 }\n")
    assert present(doubles.matrix, repository, records).changed[first] == Concerned()
    doubles.edit("tokens: [1, 2, 3]", "tokens: [1, 2, 4]")
    assert present(doubles.matrix, repository, records).changed[first] == Concerned(everything="matrix.yaml")


def test_paths_are_those_below_the_matrix_in_a_larger_repository(repository, doubles):
    inner = repository / "inner"
    inner.mkdir()
    (inner / "new.py").write_text("")
    (repository / "outer.py").write_text("")
    assert git.changed_since(inner, sh(repository, "git", "rev-parse", "HEAD")) == ["new.py"]


def test_outside_git_the_present_has_no_commit(doubles, monkeypatch):
    monkeypatch.delenv("KERNEL_MATRIX_COMMIT", raising=False)
    made = present(doubles.matrix, doubles.root, [Record("a", "pass", job={"commit": OLD})])
    assert (made.commit, made.is_checkout, dict(made.changed)) == ("", False, {})
    assert made.note
