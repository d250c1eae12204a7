"""A result that contradicts itself, its job or the history of its commit is not green, for the judge and the audit."""

from __future__ import annotations

import math
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from common import output_figures
from judges import compare, judge, judge_each, make_document
from worlds import PRESENT, as_audited, content

from kernel_matrix.audit.states import Judge
from kernel_matrix.base import git
from kernel_matrix.config.owed import Owed
from kernel_matrix.config.plan import Case, Cell, Job, Plan, plan
from kernel_matrix.results.present import Present
from kernel_matrix.store.record import Record

SHARE = 0.01
OWED = Owed(("h",), 4.0, 8.0, 4.0, 0.5, True, misrounded=SHARE)
CELL = Cell("cuda", "sm_90", "two", "op", "forward", "two", "package", "nvidia", "run")
CASE = Case(CELL, "tokens1", {"dtype": "bf16"}, None, (), OWED)
ASSERTED = replace(CASE, cell=replace(CELL, direction="tests"), owed=replace(OWED, outputs=(), asserted=True))
JOB = {"job": "cuda.two", "platform": "cuda", "toolchain": "two", "device.vendor": "nvidia", "device.targets": "sm_90",
       "started": "2026-05-01T00:00:00Z", "commit": "abcdef123456", "lock.sha256": "2" * 64}  # fmt: skip


def passed(case: Case = CASE, **figures: float) -> Record:
    """Return a result that passes; of its figures those are left out that are None."""
    given = {"itemsize": 2.0, "elements": 10_000.0, "misrounded": 0.001, "floor_misrounded": 0.001} | figures
    made = output_figures(case, **{name: value for name, value in given.items() if value is not None})
    metrics = {"elements": made["elements"], "canary.injected": 6.0, "canary.caught": 6.0}
    metrics |= {f"h.{name}": value for name, value in made.items()}
    return Record(case.id, "pass", "run", metrics=metrics, job=JOB)


def held(**given: object) -> Record:
    return replace(Record(ASSERTED.id, "pass", "run", job=JOB), **given)


def compiled(**given: object) -> Record:
    built = {"metrics": {"artifact.bytes": 9.0}, "facts": {"artifact.kind": "cubin"}}
    return replace(Record(CASE.id, "pass", "compile", job=JOB, **built), **given)


def of_audit(case: Case, records: list[Record], present: Present | None = PRESENT) -> set[str]:
    """Return the states that the audit allows, given matrix.yaml's limit of misrounded elements."""
    alone = Plan("package", "quick", (Job("cuda", "two", (case,)),))
    audited, _ = as_audited(alone, [records], present)
    limits = content(alone)
    limits["accuracy"] |= {"misrounded": SHARE}
    limits["resources"] = []
    again = Judge(limits, audited.cases, audited.raws, audited.now)
    return {state for state, _ in again.allowed(case.id)}


STAGES = ("crash", "lower", "timeout", "install", "machine")


@pytest.mark.parametrize("make", [passed, held, compiled])
def test_a_pass_that_stopped_in_a_stage_is_an_error_whatever_it_did(make):
    case = ASSERTED if make is held else CASE
    results = {stage: [replace(make(), stage=stage, message="died of SIGSEGV")] for stage in STAGES}
    for stage, verdict in judge_each(case, {**results, "": [make()]}, present=PRESENT).items():
        assert verdict.state == ("error" if stage else {passed: "pass", held: "held", compiled: "compiled"}[make])
        assert (f"that it stopped in the stage '{stage}'" in verdict.reason) == bool(stage)
        assert of_audit(case, results.get(stage, [make()])) == {verdict.state}


@pytest.mark.parametrize("make", [passed, held, compiled])
def test_a_pass_that_says_what_went_wrong_is_an_error(make):
    case = ASSERTED if make is held else CASE
    texts = ("the process died of SIGSEGV in stage launch", "AssertionError: y is off by 3", "no end after 60 s", " ")
    results = {text: [replace(make(), message=text)] for text in texts}
    for text, verdict in judge_each(case, results, present=PRESENT).items():
        assert (verdict.state, verdict.reason) == ("error", f"the record says that it passed, and also: {text}")
        assert of_audit(case, results[text]) == {"error"}


SHARES = {
    # misrounded, of the baseline, the size of an element, whether it is green
    "at the limit of few": (0.0142, 0.0, 2.0, True), "over it": (0.0143, 0.0, 2.0, False),
    "nearly all": (0.9, 0.001, 2.0, False), "all": (1.0, 0.001, 2.0, False),
    "twice the baseline": (0.2, 0.1, 2.0, True), "over that": (0.25, 0.1, 2.0, False),
    "in fp8": (0.5, 0.001, 1.0, False), "in fp32, where the share says nothing": (0.9, 0.001, 4.0, True),
    "no number": (math.nan, 0.001, 2.0, False), "no number in fp32": (math.nan, 0.001, 4.0, False),
    "no number of the baseline": (0.001, math.nan, 2.0, False), "more than all": (1.5, 0.001, 4.0, False),
    "less than none": (-0.1, 0.001, 4.0, False), "a baseline beyond all": (0.9, 5.0, 2.0, False),
    "not said": (None, 0.001, 2.0, False), "not said of the baseline": (0.001, None, 2.0, False),
    "not said in fp32": (None, None, 4.0, True),
}  # fmt: skip


def test_a_share_of_misrounded_elements_over_its_limit_or_impossible_is_not_green():
    names = "misrounded", "floor_misrounded", "itemsize"
    results = {name: [passed(**dict(zip(names, given, strict=True)))] for name, (*given, _) in SHARES.items()}
    for name, verdict in judge_each(CASE, results).items():
        assert verdict.state == ("pass" if SHARES[name][-1] else "error"), (name, verdict.reason)
        assert of_audit(CASE, results[name]) == {verdict.state}, name
    unlimited = replace(CASE, owed=replace(OWED, misrounded=None))
    assert judge(unlimited, [passed(unlimited, misrounded=0.9)]).state == "pass", "matrix.yaml has no such limit"
    assert judge(unlimited, [passed(unlimited, misrounded=math.nan)]).state == "error"
    declared = passed(misrounded=0.9)
    declared = replace(declared, metrics=declared.metrics | {"h.declared_max_abs": 1.0})
    assert judge(CASE, [declared]).state == "error", "no test of a suite: it declares nothing"


BASELINES = {
    # misrounded of the result's own baseline and of the three others', the size of an element, whether it is green
    "as the others": (0.001, (0.001,) * 3, 2.0, True), "a little more": (0.02, (0.001,) * 3, 2.0, False),
    "by luck": (0.0142, (0.0, 0.0, 0.001), 2.0, True), "raised": (0.95, (0.001,) * 3, 2.0, False),
    "all are as high": (0.95, (0.9, 0.95, 1.0), 2.0, True),
    "twice the median": (0.2, (0.1, 0.1, 0.1), 2.0, True), "in fp32": (0.95, (0.001,) * 3, 4.0, True),
    "two others": (0.95, (0.001,), 2.0, True), "none of the others says it": (0.02, (None,) * 3, 2.0, False),
}  # fmt: skip


@pytest.mark.parametrize("how", BASELINES)
def test_a_baseline_that_rounds_otherwise_than_the_others_proves_nothing(how):
    own, others, itemsize, is_green = BASELINES[how]
    cases, records = [], []
    for target, share in zip(("sm_90", "sm_100", "sm_120", "sm_80"), (own, *others), strict=False):
        cases.append(case := replace(CASE, cell=replace(CELL, target=target)))
        made = passed(case, floor_misrounded=share, misrounded=0.001, itemsize=itemsize)
        records.append(replace(made, job={**JOB, "job": f"cuda.two.{target}", "device.targets": target}))
    planned = Plan("package", "quick", (Job("cuda", "two", tuple(cases)),))
    verdict = next(v for v in compare(planned, records, PRESENT).verdicts if v.case.id == CASE.id)
    assert verdict.state == ("pass" if is_green else "error"), verdict.reason
    assert is_green or "its floor_misrounded is" in verdict.reason
    audited, _ = as_audited(planned, [[record] for record in records], PRESENT)
    limits = content(planned)
    limits["accuracy"] |= {"misrounded": SHARE}
    limits["resources"] = []
    again = Judge(limits, audited.cases, audited.raws, audited.now)
    assert {state for state, _ in again.allowed(CASE.id)} == {verdict.state}


JOBS = {
    "another toolchain": ({"job": "cuda.one"}, "error"), "another platform": ({"job": "rocm.two"}, "error"),
    "a toolchain whose name begins alike": ({"job": "cuda.two-searched"}, "error"),
    "a part of the name": ({"job": "cuda.tw"}, "error"), "no job": ({"job": "x"}, "error"),
    "a shard": ({"job": "cuda.two.3of8"}, None), "a part of a target": ({"job": "cuda.two.sm_90.2of3"}, None),
    "times": ({"job": "cuda.two.timed"}, None), "its own": ({}, None),
}  # fmt: skip


@pytest.mark.parametrize("make", [passed, held, compiled])
def test_a_case_of_another_toolchain_in_a_jobs_file_is_an_error(make):
    case = ASSERTED if make is held else CASE
    green = {"passed": "pass", "held": "held", "compiled": "compiled"}[make.__name__]
    results = {name: [replace(make(), job={**JOB, **facts})] for name, (facts, _) in JOBS.items()}
    for name, verdict in judge_each(case, results, present=PRESENT).items():
        state = JOBS[name][1]
        assert verdict.state == (state or green), (name, verdict.reason)
        assert ("its job has the name" in verdict.reason) == bool(state)
        assert of_audit(case, results[name]) == {verdict.state}, name


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, str]:
    """Return a checkout with a commit of 2026-04-30 at 12:00, and its name."""
    when = {"GIT_COMMITTER_DATE": "2026-04-30T12:00:00Z", "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z"}
    person = ("-c", "user.name=n", "-c", "user.email=n@example.org")
    for words in (["init", "-q"], [*person, "commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, env={"PATH": "/usr/bin:/bin", "HOME": "/", **when})
    return tmp_path, git.revision(tmp_path)


@pytest.mark.parametrize(
    ("started", "suffix", "is_stale"),
    [
        ("2026-04-30T11:00:00Z", "", True), ("2020-01-01T00:00:00Z", "+changes", True),
        ("2026-04-30T13:30:00+02:00", "", True), ("2026-04-30T11:55:00Z", "", False),  # clocks differ by minutes
        ("2026-04-30T12:00:00Z", "+changes", False), ("2026-05-20T12:00:00", "", False),
    ],
)  # fmt: skip
def test_a_job_that_began_before_its_commit_was_made_is_stale(repository, started, suffix, is_stale):
    root, commit = repository
    assert git.made(root, commit) == datetime(2026, 4, 30, 12, tzinfo=UTC)
    assert git.made(root, "abcdef123456") is git.made(root, "--all") is git.made(root, "") is None
    checkout = PRESENT.checkout.__class__(commit, f"{commit}+changes")
    object.__setattr__(checkout, "root", root)
    present = replace(PRESENT, checkout=checkout)
    record = replace(passed(), job={**JOB, "commit": f"{commit}{suffix}", "started": started})
    verdict = judge(CASE, [record], present)
    assert ("before its commit" in verdict.stale) == is_stale
    alone = Plan("package", "quick", (Job("cuda", "two", (CASE,)),))
    audited, _ = as_audited(alone, [[record]], present)
    judged_now = Judge(content(alone), audited.cases, audited.raws, audited.now._replace(checkout=checkout))
    assert judged_now.is_fresh(CASE.id, audited.raws[CASE.id][0]) == (not is_stale)


def test_a_stale_result_that_went_wrong_is_named_where_the_case_passes():
    ahead = {**JOB, "started": "2026-06-01T01:00:00Z"}
    wrong = replace(passed(), outcome="fail", message="h: max_abs 1 is over 0.1", job=ahead)
    crash = replace(
        wrong, outcome="error", stage="crash", message="died of SIGSEGV", job={**ahead, "commit": "0ddba11"}
    )
    results = {
        "pass": [passed(), wrong, crash],
        "flaky": [replace(passed(), attempts=("fail",)), wrong, crash],
        "nothing went wrong": [passed(), replace(passed(), job=ahead)],
        "fail": [passed(), replace(wrong, job=JOB)],
    }
    verdicts = judge_each(CASE, results, present=PRESENT)
    for state in ("pass", "flaky"):
        reason = verdicts[state].reason
        assert (verdicts[state].state, verdicts[state].stale) == (state, "")
        assert "a stale result is fail: h: max_abs 1 is over 0.1 (it started at 2026-06-01T01:00:00Z" in reason
        assert ("passed after fail" in reason) == (state == "flaky")
    assert verdicts["nothing went wrong"].reason == ""
    assert verdicts["fail"].state == "fail", "a red result of the present is red"


@pytest.mark.slow
def test_a_cell_names_a_stale_failure_of_any_of_its_cases(doubles, passing):
    planned = plan(doubles.matrix, "quick")
    planned = replace(planned, jobs=planned.jobs[:1])
    good = [passing(case) for case in planned.cases]
    late = {**good[-1].job, "started": "2026-03-01T00:00:00Z"}
    wrong = replace(good[-1], outcome="fail", message="out is over", job=late)
    present = Present(datetime(2026, 2, 1, tzinfo=UTC))
    for records, words in (
        (good, ""),
        ([*good, wrong], "a stale result is fail: out is over (it started at 2026-03-01"),
    ):
        cell = make_document(doubles.matrix, planned, records, present).cells[0]
        assert (cell.state, cell.reason[: len(words)]) == ("pass", words)
    assert cell.reason
