"""Each reason for an absent result goes through a whole report, and the audit agrees with the page."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from conftest import Doubles, write_results

from kernel_matrix import judging, pipeline
from kernel_matrix.audit import audit
from kernel_matrix.config.plan import plan
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.matrix.dashboard import write_dashboard
from kernel_matrix.results.history import History, LaneHistory, lane_id
from kernel_matrix.store.record import Record
from kernel_matrix_ci.job_status import JobStatus

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
           "device.vendor": cell.vendor, "device.targets": cell.target, "started": "2026-01-01T00:00:00Z"}  # fmt: skip
    return Record(case.id, outcome, action, job=job, **more)


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
    assert audit(project.site, folders, project.matrix, project.root) == []
    page = project.site / "compat.json"
    assert json.loads(page.read_text())["run"]["cases_by_state"] == {"missing": 30, "unavailable": 9}


@pytest.mark.parametrize("where", ["below", "beside", "before"])
@pytest.mark.slow
def test_a_broken_copy_beside_a_whole_file_costs_that_file_only(doubles: Doubles, where):
    project = pipeline.load(doubles.root / "matrix.yaml")
    planned = plan(project.matrix, "quick")
    planned = replace(planned, jobs=tuple(job for job in planned.jobs if job.toolchain == "good"))
    write_results(project.results, [result_of(case, "fail", "run", message="wrong") for case in planned.cases])
    copy = {"below": project.results / "copy", "beside": project.build / "other", "before": project.build / "a"}[where]
    shutil.copytree(project.results, copy, ignore=shutil.ignore_patterns("copy"))
    broken = next((copy / "cases").glob("*.parquet"))
    broken.write_bytes(broken.read_bytes()[: broken.stat().st_size // 2])
    folders = {"below": [project.results], "beside": [project.results, copy], "before": [copy, project.results]}[where]
    with judging.judged(project, planned, folders) as judged:
        made = write_dashboard(project, judged)
        assert {verdict.state for verdict in judged.verdicts()} == {"fail"}
    assert made.differences == ()
    assert made.exit_status == 2, "a broken file is named"
    assert [problem for problem in made.problems if "copy" in problem or "other" in problem or "/a/" in problem]
