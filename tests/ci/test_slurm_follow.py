"""A run of Slurm that is followed: the words about its rows, its report, its owner."""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import nullcontext

import pytest
from slurm_plans import CLEARED, LATER, RAN, plan_in

from kernel_matrix.base.errors import UserError
from kernel_matrix.ci import cluster
from kernel_matrix.ci.cluster import keep, make_run
from kernel_matrix.ci.engines import AwayError, Fitted, engine_named, state
from kernel_matrix.ci.engines.slurm import script
from kernel_matrix.ci.engines.slurm.engine import never_starts
from kernel_matrix.ci.follow import Follower
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.store.record import Record
from kernel_matrix.store.write import write as write_results


@pytest.fixture
def planned(tmp_path):
    return plan_in(tmp_path)


class Played:
    """An engine whose looks are given: the status and reason of the report, and of the one row."""

    def __init__(self, *looks: tuple[dict[str, str], dict[str, str]]) -> None:
        self.looks, self.cancelled = [*looks], []

    def poll(self, run):
        report, row = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return [JobStatus(row="report", **report), JobStatus(row="here.plain", **row)]

    def attend(self, run, statuses): ...

    def cancel(self, run, rows=None):
        self.cancelled += rows

    def never_starts(self, why):
        return never_starts(why)

    def log(self, run, row):
        return script.log_of(run, row)


ENDED, RUNS = {"status": "completed", "conclusion": "success"}, {"status": "running", **RAN}
CANCELLED = {"status": "completed", "conclusion": "cancelled"}


@pytest.mark.parametrize(
    ("looks", "status", "cancelled"),
    [
        # Somebody cancels the report alone: the rows go on, and it is made here.
        ([(CANCELLED, RUNS), (CANCELLED, RUNS), (CANCELLED, ENDED)], 7, []),
        ([(CANCELLED, CANCELLED)], 130, []),
        # All nodes of its partition are drained, or it is too long for it.
        ([({"status": "queued", "why": "PartitionTimeLimit"}, ENDED)], 7, ["report"]),
        ([({"status": "queued", "why": "Nodes required for job are DOWN, DRAINED"}, ENDED)], 7, ["report"]),
    ],
)
def test_a_report_that_nobody_makes_is_made_here_when_the_rows_have_ended(
    planned, monkeypatch, looks, status, cancelled
):
    project, plan = planned
    run = make_run("slurm", project, plan).model_copy(update={"report_commands": ("exit 7",), "queue_minutes": 0.001})
    engine = Played(*looks)
    monkeypatch.setattr("kernel_matrix.ci.follow._FIRST", 0.05)
    assert Follower(engine, project, run, print).follow() == status
    assert (engine.cancelled, len(engine.looks)) == (cancelled, 1), "rows that run are followed to their end"


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        ({"status": "running", **CLEARED}, ""),
        ({"status": "running", **RAN}, ""),
        ({"status": "queued", "why": "BeginTime"}, "lost a1, and waits again (BeginTime)"),
        ({"status": "queued"}, "lost a1, and waits again (requeued)"),
        ({"status": "running", **LATER}, "lost a1, and began again"),
        ({"status": "completed", "conclusion": "success", **LATER}, "lost a1, and began again"),
        ({"status": "completed", "conclusion": "success", **RAN}, ""),
        ({"status": "completed", "conclusion": "cancelled"}, ""),
        ({"status": "absent"}, ""),
    ],
)
@pytest.mark.parametrize("cleared", [[], [{"status": "running", **CLEARED}]])
def test_a_row_that_lost_its_node_says_so_once_also_where_no_look_saw_it_wait(planned, now, lost, cleared):
    project, plan = planned
    said: list[str] = []
    run = make_run("slurm", project, plan)
    follower = Follower(engine_named("slurm"), project, run, said.append)
    for facts in ({"status": "running", **RAN}, *cleared, now):
        follower._show([JobStatus(row="here.plain", **facts)])
    assert [line.partition(": ")[2] for line in said if "lost a1" in line] == [lost] * bool(lost)
    assert sum("runs on" in line for line in said) == 1 + (lost != "" and now["status"] == "running")


def test_of_a_log_larger_than_the_memory_the_end_is_read(planned):
    project, plan = planned
    said: list[str] = []
    run = make_run("slurm", project, plan)
    script.logs(run).mkdir(parents=True)
    with script.log_of(run, "here.plain").open("wb") as log:
        log.seek(1 << 40)
        log.write(b"\n1\n2\n\n3\n4\n5\n")
    ended = {**RAN, "status": "completed", "conclusion": "failure"}
    Follower(engine_named("slurm"), project, run, said.append)._show([JobStatus(row="here.plain", **ended)])
    assert [line[9:] for line in said][1:6] == [f"    {number}" for number in range(1, 6)]


@pytest.fixture
def waits(planned, monkeypatch):
    """Return a project, its run, which waits for ever, its rows and the engine; the call that submitted it has died."""
    project, plan = planned
    run, played = (
        make_run("slurm", project, plan),
        Played(({"status": "queued"}, {"status": "queued", "why": "InvalidQOS"})),
    )
    monkeypatch.setattr("kernel_matrix.ci.cluster._END_SECONDS", 0.0)
    monkeypatch.setattr(played, "cancel", lambda run, rows=("all",): played.cancelled.extend(rows))
    keep(project, run, plan.rows)
    return project, run, plan.rows, played


def test_what_is_left_of_a_call_that_was_interrupted_is_cancelled_and_not_gone_on_with(waits):
    project, run, rows, played = waits
    assert cluster._going_on(played, project, rows, print) == run
    state.mark_interrupted(run)
    assert cluster._going_on(played, project, rows, print) is None
    assert played.cancelled == ["all"]


def test_a_cancel_that_the_cluster_does_not_hear_is_made_up_for_by_the_next_call(waits, monkeypatch):
    project, run, rows, played = waits

    def away(run):
        raise AwayError("scancel: Unable to contact slurm controller")

    with monkeypatch.context() as patched:
        patched.setattr(played, "cancel", away)
        with pytest.raises(AwayError, match=f"Jobs of km-{run.id} may go on. The next call ends them"):
            cluster._cancel(played, run)
    assert cluster._going_on(played, project, rows, print) is None
    assert played.cancelled == ["all"]


@pytest.mark.parametrize("refused", [True, False])
def test_a_refused_submission_keeps_the_earlier_results(planned, monkeypatch, refused):
    project, plan = planned
    job = plan.rows.jobs[0].id
    earlier = write_results(project.results, {"job": job}, [Record(plan.rows.jobs[0].cases[0].id, "pass")])
    played = Played()

    def submit(run):
        assert not earlier.exists()
        if refused:
            raise UserError("sbatch: error: AssocMaxSubmitJobLimit")

    monkeypatch.setattr(played, "submit", submit, raising=False)
    monkeypatch.setattr(played, "fit", lambda batches: Fitted(batches, (), ()), raising=False)
    options = Namespace(on="slurm", executor="auto", resume=False, excluded=False, expect=None, history=None)
    with pytest.raises(UserError, match="AssocMax") if refused else nullcontext():
        cluster._submitted(played, project, plan, options, print)
    assert earlier.exists() == refused
    assert not [*project.build.glob("*.earlier")]


def test_another_user_s_run_can_be_followed_and_neither_ended_nor_gone_on_with(waits):
    project, run, rows, played = waits
    other = run.model_copy(update={"user": os.getuid() + 70_000})
    keep(project, other, rows)
    with pytest.raises(
        UserError, match=f"km-{run.id}, which user {other.user} has submitted.*--attach.*--build FOLDER"
    ):
        cluster._going_on(played, project, rows, print)
    with pytest.raises(UserError, match="who alone can end it"):
        cluster._cancel(played, other)
    assert not state.is_interrupted(other)
    assert Follower(played, project, other, print)._look()
    assert (played.cancelled, state.read(project.build)) == ([], other)
    state.status_of_report(other).write_text("0\n")
    assert cluster._going_on(Played((ENDED, ENDED)), project, rows, print) is None, "it has ended"
