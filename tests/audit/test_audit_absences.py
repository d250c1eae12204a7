"""Each reason for an absent result goes through a whole report, and the audit agrees with the page."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from common import Doubles, write_results

from kernel_matrix import audit as audits
from kernel_matrix import judging, pipeline
from kernel_matrix.config.plan import plan
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.results.history import History, LaneHistory, lane_id
from kernel_matrix.store.record import Record

LABELS = ("self-hosted", "linux", "gfx942")
DAY = datetime(2026, 5, 20, tzinfo=UTC)
# By the row of a job: its status, the state of its cases, and a part of the reason.
WAYS = {
    "here.good": (None, "missing", "nothing is known of its job"),
    "here.segfault": ({"status": "absent"}, "missing", "the CI service never made the job"),
    "here.hang": ({"status": "queued"}, "unavailable", "took it within"),
    "here.raises": ({"status": "running"}, "missing", "still running on box-1"),
    "here.leaves": ({"conclusion": "cancelled", "machine": ""}, "unavailable", "cancelled before a machine"),
    "here.wrong": ({"conclusion": "cancelled"}, "missing", "was cancelled on box-1"),
    "here.flaky": ({"conclusion": "timed_out"}, "missing", "ended by its time limit"),
    "here.no-device": ({"conclusion": "skipped"}, "missing", "the CI service skipped the job"),
    "here.hogs-memory": ({"conclusion": "success"}, "missing", "and left no result. This lane has had no result"),
    "here.asserts-nothing": (None, "unavailable", "no machine of this run has this hardware"),  # a row without labels
    "here.writes-nothing": ({"conclusion": "success"}, "missing", "only compiled it: no device for its label"),
    "here.forks-away": ({"conclusion": "success"}, "missing", "did not try it: no device for its label"),
    "here.fills-disk": ({"conclusion": "success"}, "missing", "its result was refused"),
}


def result_of(case, outcome: str, action: str = "", **more) -> Record:
    cell = case.cell
    job = {"job": f"{cell.platform}.{cell.toolchain}", "platform": cell.platform, "toolchain": cell.toolchain,
           "device.vendor": cell.vendor, "device.targets": cell.target, "started": "2026-01-01T00:00:00Z",
           "python": "3.11.9", "version.numpy": "2.4.6", "device": "none"}  # fmt: skip
    return Record(case.id, outcome, action, **{"job": job, **more})


def lane(name: str) -> LaneHistory:
    known = {
        "here.good": LaneHistory(last_result=DAY, silent_since=DAY),
        "here.hogs-memory": LaneHistory(silent_since=DAY),
    }
    return known.get(name, LaneHistory(last_result=DAY))


@pytest.mark.slow
def test_every_reason_for_an_absent_result_stands_on_a_page_that_the_audit_calls_right(doubles: Doubles):
    project = pipeline.load(doubles.root / "matrix.yaml")
    planned = plan(project.matrix, "quick")
    jobs = {job.id: job for job in planned.jobs}
    assert jobs.keys() == WAYS.keys(), "each job is absent in its own way"
    compiled = {"metrics": {"artifact.bytes": 9.0}, "facts": {"artifact.kind": "cubin"}}
    write_results(
        project.results, [result_of(c, "pass", "compile", **compiled) for c in jobs["here.writes-nothing"].cases]
    )
    write_results(
        project.results, [result_of(c, "unavailable", message="no GPU") for c in jobs["here.forks-away"].cases]
    )
    whole = write_results(project.results, [result_of(c, "fail", "run") for c in jobs["here.fills-disk"].cases])
    whole.path("cases").write_bytes(whole.path("cases").read_bytes()[:100])
    rows = tuple(
        Row(name, "here", () if name == "here.asserts-nothing" else LABELS, True, (job,), 1.0)
        for name, job in jobs.items()
    )
    statuses = {
        name: JobStatus(**{"row": name, "status": "completed", "machine": "box-1", **facts})
        for name, (facts, _, _) in WAYS.items() if facts
    }  # fmt: skip
    earlier = History({lane_id(job.cases[0].id): lane(name) for name, job in jobs.items()})
    row_plan = RowPlan("main", "quick", rows)
    folders = [project.results]
    with judging.judged(project, planned, folders, row_plan=row_plan, statuses=statuses, earlier=earlier) as judged:
        made = write_dashboard(project, judged, earlier=earlier)
        found = judged.verdicts()
    for verdict in found:
        _, state, words = WAYS[f"here.{verdict.case.cell.toolchain}"]
        assert (verdict.state, words in verdict.reason) == (state, True), (verdict.case.id, verdict.reason)
    assert made.differences == ()
    assert audits.audit(project.site, folders, project.matrix, project.root) == []
    page = project.site / "compat.json"
    assert json.loads(page.read_text())["run"]["cases_by_state"] == {"missing": 30, "unavailable": 9}


COMPILED = {"metrics": {"artifact.bytes": 9.0, "artifact.registers": 40.0}, "facts": {"artifact.kind": "cubin"}}


def with_job(case, **facts: str) -> dict[str, object]:
    return {"job": result_of(case, "pass").job | facts}


# What a machine without the device of its row may leave of a case: files of records, one file for each job.
LEFT = {
    "compiled, with code": lambda case: [[result_of(case, "pass", "compile", **COMPILED)]],
    "a compiler that failed": lambda case: [[result_of(case, "error", "compile", stage="compile", message="no ptxas")]],
    "compiled at the second try": lambda case: [[result_of(case, "pass", "compile", attempts=("error",), **COMPILED)]],
    "not tried": lambda case: [[result_of(case, "unavailable", message="no GPU", seconds=1.5)]],
    "compiled by other versions": lambda case: [
        [result_of(case, "pass", "compile", **COMPILED, **with_job(case, **{"version.numpy": "1.26.4"}))]
    ],
    "compiled by an environment that cannot be made": lambda case: [[result_of(case, "error", stage="install")]],
    "compiled once, and not tried once": lambda case: [
        [result_of(case, "pass", "compile", **COMPILED)],
        [result_of(case, "unavailable", **with_job(case, started="2026-01-02T00:00:00Z", python="3.12.1"))],
    ],
    "compiled, with canaries and repeats": lambda case: [
        [result_of(case, "pass", "compile", facts=COMPILED["facts"],
                   metrics={**COMPILED["metrics"], "canary.injected": 2.0, "canary.caught": 1.0, "repeats": 3.0})]
    ],
    "compiled, and before that wrong": lambda case: [
        [result_of(case, "pass", "compile", **COMPILED)],
        [result_of(case, "fail", "run", message="wrong", **with_job(case, started="2025-01-01T00:00:00Z"))],
    ],
}  # fmt: skip


@pytest.mark.parametrize("of", ["all", "a sample"])
@pytest.mark.slow
def test_whatever_a_machine_without_its_device_leaves_the_audit_calls_the_page_right(doubles: Doubles, of, monkeypatch):
    if of == "a sample":
        monkeypatch.setattr(audits, "MOST_RESULTS", 0)
    project = pipeline.load(doubles.root / "matrix.yaml")
    planned = plan(project.matrix, "quick")
    jobs = planned.jobs[: len(LEFT)]
    planned = replace(planned, jobs=jobs)
    for job, (_, left) in zip(jobs, LEFT.items(), strict=True):
        for of_job in zip(*map(left, job.cases), strict=True):
            write_results(project.results, [record for records in of_job for record in records])
    row_plan = RowPlan("main", "quick", tuple(Row(job.id, "here", LABELS, True, (job,), 1.0) for job in jobs))
    with judging.judged(project, planned, [project.results], row_plan=row_plan) as judged:
        made = write_dashboard(project, judged)
        found = {verdict.case.cell.toolchain: verdict for verdict in judged.verdicts()}
    words = {name: found[job.toolchain].reason for job, name in zip(jobs, LEFT, strict=True)}
    without = {name for name, reason in words.items() if "no device for its label gfx942" in reason}
    assert set(LEFT) - without == {"compiled by an environment that cannot be made", "compiled, and before that wrong"}
    assert made.differences == ()
    assert ("chosen at random" in (project.site / "compat.json").read_text()) == (of == "a sample")
    assert audits.audit(project.site, [project.results], project.matrix, project.root, judged.asked) == []


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def link(path: Path) -> None:
    path.rename(path.with_suffix(".whole"))
    path.symlink_to(path.with_suffix(".whole"))


SPOILT = (
    *(("cases", cut), ("jobs", Path.unlink), ("samples", Path.unlink)),
    *(("jobs", link), ("cases", link), ("jobs", cut)),
)


@pytest.mark.parametrize("where", ["below", "beside", "before"])
@pytest.mark.slow
def test_broken_copies_beside_a_whole_file_cost_these_files_only(doubles: Doubles, where):
    project = pipeline.load(doubles.root / "matrix.yaml")
    planned = plan(project.matrix, "quick")
    planned = replace(planned, jobs=tuple(job for job in planned.jobs if job.toolchain == "good"))
    write_results(project.results, [result_of(case, "fail", "run", message="wrong") for case in planned.cases])
    beside = {"below": project.results, "beside": project.build / "z", "before": project.build / "a"}[where]
    copies = [beside / f"copy-{number}" for number in range(len(SPOILT))]
    for copy, (table, spoil) in zip(copies, SPOILT, strict=True):
        shutil.copytree(project.results, copy, ignore=shutil.ignore_patterns("copy-*"))
        spoil(next((copy / table).glob("*.parquet")))
    given = {"below": [], "beside": [project.results, *copies], "before": [*copies, project.results]}[where]
    folders = given or [project.results]
    with judging.judged(project, planned, folders) as judged:
        made = write_dashboard(project, judged)
        assert {verdict.state for verdict in judged.verdicts()} == {"fail"}
    assert made.differences == ()
    assert made.exit_status == 2, "a broken file is named"
    for copy in copies:
        assert [problem for problem in made.problems if f"{copy.name}/" in problem], (copy, made.problems)
