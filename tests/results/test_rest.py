"""A run of a part of a job leaves the results of the rest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from common import ROOT
from judges import judged
from records import record_with_sample

from kernel_matrix.config.canary_cases import canary_cases
from kernel_matrix.config.load import load
from kernel_matrix.config.plan import Case, Job, Plan, plan
from kernel_matrix.results import kept_cases
from kernel_matrix.results.states import CAUGHT, INJECTED, detection
from kernel_matrix.store import write as store
from kernel_matrix.store.database import rows
from kernel_matrix.store.load import collect
from kernel_matrix.store.record import Record

JOB = "here.good"


@pytest.fixture(scope="module")
def planned() -> dict[str, Case]:
    jobs = plan(load(ROOT / "tests" / "support" / "doubles" / "matrix.yaml"), "full").jobs
    return {case.id: case for job in jobs if job.id == JOB for case in job.cases}


def write(results: Path, planned: dict[str, Case], commit: str, names: list[str], outcome: str = "pass") -> None:
    """Write what a run of these cases leaves; one of them carries canaries."""
    [carrier] = canary_cases(planned[name] for name in names)
    results.mkdir(exist_ok=True)
    metrics = {INJECTED: 3.0, CAUGHT: 3.0} if outcome == "pass" else {}
    records = [Record(n, outcome, action="run", metrics=metrics if n == carrier else {}) for n in names]
    started = {"job": JOB, "commit": commit, "started": f"2026-11-22T10:00:0{len(commit)}Z"}
    store.replace(results, {**started, **detection(records).facts}, records)


def commits(results: Path, planned: dict[str, Case]) -> dict[str, set[str]]:
    """Return the commits of the results of each case. No job may have a fault in its canaries."""
    found: dict[str, list[Record]] = {}
    records = collect([results]).records
    for each in records:
        found.setdefault(each.case, []).append(each)
    with judged(Plan("doubles", "full", (Job("here", "good", tuple(planned.values())),)), records) as judgement:
        assert rows(judgement.connection, "FROM faulty_jobs") == []
    return {name: {each.job["commit"] for each in of_case} for name, of_case in found.items()}


@pytest.mark.parametrize("outcome", ["pass", "fail"])
@pytest.mark.slow
def test_what_is_not_run_again_stays_with_the_facts_of_its_own_run(tmp_path, planned, outcome):
    names = list(planned)
    [carrier] = canary_cases(planned.values())
    first, *others = [name for name in names if name != carrier]
    write(tmp_path, planned, "a", names, outcome)
    assert kept_cases.keep(tmp_path, JOB, planned, [first]) == len(names) - 1
    write(tmp_path, planned, "bb", [first])
    assert commits(tmp_path, planned) == {first: {"bb"}, **{name: {"a"} for name in (carrier, *others)}}
    assert kept_cases.keep(tmp_path, JOB, planned, others) == 2
    write(tmp_path, planned, "ccc", others)
    assert commits(tmp_path, planned) == {first: {"bb"}, carrier: {"a"}, **{name: {"ccc"} for name in others}}


@pytest.mark.slow
def test_the_case_with_the_canaries_of_the_rest_stays_beside_its_new_result(tmp_path, planned):
    names = list(planned)
    [carrier] = canary_cases(planned.values())
    write(tmp_path, planned, "a", names)
    assert kept_cases.keep(tmp_path, JOB, planned, [carrier]) == len(names) - 1
    write(tmp_path, planned, "bb", [carrier])
    assert commits(tmp_path, planned) == {name: {"a", "bb"} if name == carrier else {"a"} for name in names}


@pytest.mark.slow
def test_a_run_of_all_keeps_nothing(tmp_path, planned):
    names = list(planned)
    write(tmp_path, planned, "a", names)
    kept_cases.keep(tmp_path, JOB, planned, names[:1])
    write(tmp_path, planned, "bb", names[:1])
    assert kept_cases.keep(tmp_path, JOB, planned, names) == 0
    assert not list((tmp_path / kept_cases.FOLDER).rglob("*.*"))


def test_a_case_that_is_planned_no_more_is_not_kept(tmp_path, planned):
    names = list(planned)
    write(tmp_path, planned, "a", names)
    assert kept_cases.keep(tmp_path, JOB, {name: planned[name] for name in names[:2]}, names[:1]) == 1


@pytest.mark.parametrize("text", ["", "<testsuites><testsuite>"])
def test_a_broken_file_does_not_stop_a_run(tmp_path, planned, text):
    (tmp_path / f"{JOB}.xml").write_text(text)
    assert kept_cases.keep(tmp_path, JOB, planned, list(planned)[:1]) == 0


@pytest.mark.slow
def test_samples_are_kept_with_their_results(tmp_path, planned):
    former = [record_with_sample(name, job={"job": JOB}) for name in planned]
    former = [replace(each, job=former[0].job) for each in former]
    store.replace(tmp_path, former[0].job, former)
    carriers = canary_cases(planned.values())
    again = next(name for name in planned if name not in carriers)
    kept_cases.keep(tmp_path, JOB, planned, [again])
    kept = {each.case: each.samples for each in collect([tmp_path / kept_cases.FOLDER]).records}
    assert kept == {each.case: each.samples for each in former if each.case != again}
    assert all(kept.values())
