"""No job disappears silently: its status is asked for, shown, and remembered."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from common import Doubles, few_cells, harness, job_of
from judges import compare, make_document
from together import first_are_quick

from kernel_matrix.base.errors import UserError
from kernel_matrix.ci.services import github
from kernel_matrix.cli import main
from kernel_matrix.config.plan import Plan, plan
from kernel_matrix.machines import job_status
from kernel_matrix.machines.absences import absences, with_broken_promises
from kernel_matrix.machines.job_status import JobStatus
from kernel_matrix.machines.row_plan import RowPlan
from kernel_matrix.machines.rows import Row
from kernel_matrix.report.badges import GREEN, GREY, of_document, of_history
from kernel_matrix.report.markdown import summary
from kernel_matrix.results import history
from kernel_matrix.results.history import History, LaneHistory, lane_id
from kernel_matrix.store.record import Record

NOW = datetime(2026, 5, 20, tzinfo=UTC)
LANE = "here/any/good"


@pytest.fixture
def made(doubles: Doubles) -> tuple[Plan, RowPlan]:
    planned = plan(doubles.matrix, "quick")
    rows = tuple(Row(job.id, "here", ("self-hosted", "linux", "gfx942"), True, (job,), 1.0) for job in planned.jobs)
    return planned, RowPlan("main", "quick", rows)


def status(**facts: str) -> JobStatus:
    return JobStatus(**{"row": "here.good", "status": "completed", "machine": "box-1", **facts})


@pytest.mark.parametrize(
    ("known", "outcome", "words"),
    [
        (None, "missing", "nothing is known of its job"),
        (status(status="absent"), "missing", "the CI service never made the job 'here.good'"),
        (
            status(status="queued"),
            "unavailable",
            "no machine with the labels self-hosted, linux, gfx942 took it within 60",
        ),
        (status(status="running"), "missing", "still running on box-1"),
        (status(conclusion="cancelled", machine=""), "unavailable", "cancelled before a machine with the labels"),
        (status(conclusion="cancelled"), "missing", "was cancelled on box-1"),
        (status(conclusion="timed_out"), "missing", "ended by its time limit on box-1"),
        (status(conclusion="skipped"), "missing", "the CI service skipped the job"),
        (status(conclusion="success"), "missing", "ended as 'success' on box-1 and left no result"),
    ],
)
@pytest.mark.slow
def test_a_job_without_a_result_gives_cells_with_the_reason(made, known, outcome, words):
    planned, row_plan = made
    statuses = {known.row: known} if known else {}
    absent = absences(row_plan, [], statuses, History(), {}, 60)
    mine = [record for record in absent if record.case.startswith(LANE)]
    assert [record.outcome for record in mine] == [outcome] * 3
    assert words in mine[0].message
    comparison = compare(planned, absent)
    assert sum(comparison.counts.values()) == len(planned.cases)
    assert comparison.cells[0].state == outcome
    assert words in comparison.cells[0].cases[0].reason


def test_only_cases_without_a_record_are_absent(made):
    planned, row_plan = made
    first = planned.cases[0].id
    absent = {record.case for record in absences(row_plan, [Record(first, "fail")], {}, History(), {}, 60)}
    assert absent == {case.id for case in planned.cases} - {first}


def test_a_machine_whose_gpu_is_gone_is_not_drawn_as_one_that_compiles(made):
    planned, row_plan = made
    compiled, not_tried, ran, skipped = (case.id for case in planned.cases[:4])
    records = [
        Record(compiled, "pass", "compile"),
        Record(not_tried, "unavailable", message="this machine has no device for gfx942"),
        Record(ran, "pass", "run"),
        Record(skipped, "unavailable", "run", message="the suite skips its test"),
    ]
    told = with_broken_promises(row_plan, records)
    assert [record.outcome for record in told[:2]] == ["missing", "missing"]
    assert "only compiled it: no device for its label gfx942" in told[0].message
    assert "did not try it: no device for its label gfx942" in told[1].message
    assert told[2:] == records[2:]


@pytest.mark.parametrize(
    ("lane", "words"),
    [
        (None, "No earlier run of this lane is on record."),
        (LaneHistory(last_result=NOW), "Last result of this lane: 2026-05-20."),
        (LaneHistory(last_result=NOW, silent_since=NOW + timedelta(days=1)), "silent since 2026-05-21."),
        (LaneHistory(silent_since=NOW), "no result since it was first planned, 2026-05-20."),
    ],
)
def test_the_reason_says_since_when(made, lane, words):
    earlier = History({LANE: lane} if lane else {})
    assert words in absences(made[1], [], {}, earlier, {}, 60)[0].message


def test_jobs_of_a_called_workflow_are_found_by_their_row(made):
    jobs = [
        {"name": "matrix / here.good", "status": "completed", "conclusion": "success", "runner_name": "a"},
        {"name": "matrix / here.hang", "status": "waiting", "conclusion": None, "runner_name": None},
        {"name": "matrix / here.wrong", "status": "in_progress", "conclusion": None, "runner_name": "b"},
        {"name": "lint", "status": "completed", "conclusion": "success", "runner_name": "c"},
    ]
    found = {s.row: s.status for s in github.statuses(made[1], jobs)}
    assert [found[f"here.{name}"] for name in ("good", "hang", "wrong", "flaky")] == [
        "completed", "queued", "running", "absent"]  # fmt: skip


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def looks(*rows: str):
    """Return a function that gives one row of statuses a call, and then repeats the last. A letter is a status."""
    words = {"q": "queued", "r": "running", "c": "completed", "-": "absent"}
    script = [[JobStatus(row=f"r{i}", status=words[c]) for i, c in enumerate(row)] for row in rows]

    def look():
        return script.pop(0) if len(script) > 1 else script[0]

    return look


@pytest.mark.parametrize(
    ("rows", "least", "most"),
    [
        (["--", "qq", "rq", "cr", "cc"], 0, 300),  # settled
        (["qq", "rq"] + ["rq"] * 200 + ["cq", "cr", "cc"], 6000, 7000),  # a busy machine runs its jobs one by one
        (["qq", "cq"], 600, 700),  # one job never starts
        (["qr"], 5.5 * 3600, 5.5 * 3600 + 60),  # a job hangs longer than every limit
    ],
)
def test_waiting_ends_when_all_is_settled_or_nothing_moves(rows, least, most):
    clock = Clock()
    job_status.wait(looks(*rows), 600, clock=clock, sleep=clock.sleep)
    assert least <= clock.now <= most


@pytest.fixture
def gh(tmp_path, monkeypatch):
    """Put a program on PATH that answers as ``gh api`` would, and return the file that counts its calls."""

    def with_answers(script: str) -> Path:
        counted = tmp_path / "calls"
        (tmp_path / "gh").write_text(f"#!/bin/sh\necho x >> {counted}\ncalls=$(wc -l < {counted})\n{script}\n")
        (tmp_path / "gh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return counted

    return with_answers


def test_a_refusal_of_gh_is_bad_input_with_its_words(gh):
    calls = gh("echo 'gh: Resource not accessible by integration (HTTP 403)' >&2; exit 1")
    with pytest.raises(UserError, match=r"Resource not accessible by integration .*The job needs 'actions: read'"):
        github.ask("o/r", "1", "1", sleep=lambda _: None)
    assert len(calls.read_text().split()) == 1, "a refusal is no fault of the moment"


@pytest.mark.parametrize("fault", ["gh: HTTP 502", "gh: Server Error (HTTP 503)", "error connecting to api.github.com"])
def test_a_fault_of_the_moment_does_not_end_the_report(gh, fault):
    calls = gh(f"if [ $calls -lt 4 ]; then echo '{fault}' >&2; exit 1; fi\necho '{{\"name\": \"lint\"}}'")
    waited: list[float] = []
    assert github.ask("o/r", "1", "1", sleep=waited.append) == [{"name": "lint"}]
    assert len(calls.read_text().split()) == 4
    assert waited == sorted(waited)
    assert waited[0] < waited[-1]


def test_a_fault_that_stays_ends_with_its_words_after_some_minutes(gh):
    gh("echo 'gh: HTTP 502' >&2; exit 1")
    waited: list[float] = []
    with pytest.raises(UserError, match=r"HTTP 502.* asked \d+ times in \d+ minutes"):
        github.ask("o/r", "1", "1", sleep=waited.append)
    assert 120 <= sum(waited) <= 600


EARLIER = """
case "$*" in
  *default_branch*) echo main;;
  *main.yml/runs*event=push*) echo "2026-05-02T00:00:00Z 12"; echo "2026-05-01T00:00:00Z 11";;
  *nightly.yml/runs*event=schedule*) echo "2026-05-03T00:00:00Z 13";;
  "run download 13 "*) echo "no artifact matches any of the names" >&2; exit 1;;
  "run download 12 "*) echo '{}' > FOLDER/history.json;;
  *) exit 9;;
esac
"""


@pytest.mark.slow
def test_history_comes_from_the_newest_run_of_main_that_has_one(gh, tmp_path, monkeypatch, capsys):
    folder, words = tmp_path / "history", tmp_path / "words"
    gh(f'echo "$@" >> {words}\n{EARLIER.replace("FOLDER", str(folder))}')
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    assert main(["ci", "history", str(folder)]) == 0
    assert "run 13 of 2026-05-03T00:00:00Z has no site: " in capsys.readouterr().out
    assert (folder / "history.json").exists()
    assert "run download 11" not in words.read_text()
    assert "select(.head_repository.full_name == .repository.full_name)" in words.read_text()


@pytest.mark.slow
def test_a_repository_without_a_run_has_no_history_and_says_so(gh, tmp_path, monkeypatch, capsys):
    gh('case "$*" in *default_branch*) echo main;; esac')
    monkeypatch.setenv("GITHUB_REPOSITORY", "o/r")
    assert main(["ci", "history", str(tmp_path / "h")]) == 0
    assert "history: there is none" in capsys.readouterr().out
    made = harness("ci", "plan", "--rows", "--history", str(tmp_path / "h"))
    assert made.returncode == 0, made.stderr


def test_a_fault_of_the_moment_does_not_end_the_plan_for_want_of_a_history(gh, tmp_path):
    """GitHub is out of order at the second request, and then again in the middle of a download."""
    folder = tmp_path / "history"
    broken = f"mkdir {folder}/data; echo 'error connecting to api.github.com' >&2; exit 1"
    once = f'[ $calls = 2 ] && {{ echo "gh: HTTP 502" >&2; exit 1; }}\ncase "$calls$*" in 5*download*) {broken};; esac'
    answers = EARLIER.replace('echo "2026-05-03T00:00:00Z 13"', "true").replace("FOLDER", str(folder))
    calls = gh(once + answers)
    waited: list[float] = []
    assert github.fetch_site("o/r", folder, print, sleep=waited.append)
    assert len(waited) == 2
    assert [path.name for path in folder.iterdir()] == ["history.json"], "what a broken download left is gone"
    assert len(calls.read_text().split()) == 6


def test_the_last_known_statuses_stay_when_the_service_no_longer_answers():
    clock, answers = Clock(), [[JobStatus(row="r0", status="running")]]

    def look():
        if answers:
            return answers.pop()
        raise UserError("HTTP 502")

    assert [s.status for s in job_status.wait(look, 600, clock=clock, sleep=clock.sleep)] == ["running"]


def test_a_service_that_never_answered_is_bad_input():
    def look():
        raise UserError("HTTP 502")

    with pytest.raises(UserError, match="HTTP 502"):
        job_status.wait(look, 600)


def test_a_file_that_is_no_list_of_statuses_is_bad_input(tmp_path):
    (tmp_path / "jobs.json").write_text('{"row": 1}')
    with pytest.raises(UserError, match=r"jobs.json: .*Make it anew"):
        job_status.read(tmp_path / "jobs.json")


def lane_badge(days: float | None, *, silent_for: float | None = None):
    last = None if days is None else NOW - timedelta(days=days)
    since = None if silent_for is None else NOW - timedelta(days=silent_for)
    made = of_history("x", LaneHistory(last_result=last, message="3 ran of 3", color=GREEN, silent_since=since), NOW, 7)
    return made.message, made.color


def test_a_badge_turns_grey_when_its_lane_is_silent_for_too_long():
    assert lane_badge(0) == ("3 ran of 3", GREEN)
    assert lane_badge(3, silent_for=2) == lane_badge(3) == ("3 ran of 3, 3 days ago", GREEN)
    assert lane_badge(8, silent_for=7) == lane_badge(8) == ("no result for 8 days", GREY)
    assert lane_badge(None, silent_for=1) == ("no result yet", GREY)


def test_history_remembers_since_when_a_lane_is_silent_until_it_speaks(made):
    planned, _ = made
    badges = {f"here/any/{job.toolchain}": ("1 ran of 1", GREEN) for job in planned.jobs}
    day = [NOW + timedelta(days=number) for number in range(4)]
    lanes = history.carry_on({}, [(LANE, "run", day[0])], badges, day[0])
    assert (lanes[LANE].last_result, lanes[LANE].silent_since) == (day[0], None)
    for moment in day[1:3]:
        lanes = history.carry_on(lanes, [], badges, moment)
        assert (lanes[LANE].last_result, lanes[LANE].silent_since) == (day[0], day[1])
    lanes = history.carry_on(lanes, [(LANE, "run", day[3])], badges, day[3])
    assert (lanes[LANE].last_result, lanes[LANE].silent_since) == (day[3], None)


def test_a_lane_is_as_old_as_its_newest_job_and_not_as_the_report(made):
    planned, _ = made
    badges = {f"here/any/{job.toolchain}": ("1 ran of 1", GREEN) for job in planned.jobs}
    ran, compiled, tried = (NOW - timedelta(days=days) for days in (9, 8, 12))
    jobs = [(LANE, "run", ran), (LANE, "compile", compiled), (LANE, "", tried)]
    for moment in (NOW, NOW + timedelta(days=30)):
        lane = history.carry_on({LANE: LaneHistory(last_ran=ran - timedelta(days=1))}, jobs, badges, moment)[LANE]
        assert (lane.last_result, lane.last_ran, lane.last_compiled) == (compiled, ran, compiled)
        assert lane.silent_since is None
    newer = LaneHistory(last_result=NOW, last_ran=NOW)
    lane = history.carry_on({LANE: newer}, jobs, badges, NOW)[LANE]
    assert (lane.last_result, lane.last_ran, lane.last_compiled) == (NOW, NOW, compiled)


@pytest.mark.slow
def test_a_report_that_is_made_again_does_not_keep_a_dead_lane_alive(matrix):
    planned = few_cells(plan(matrix, "quick"))
    case = next(case for case in planned.cases if case.cell.action == "run")
    started, lane_of_case = datetime(2026, 1, 1, tzinfo=UTC), lane_id(case.id)
    for days, is_silent in ((2, False), (8, True), (400, True)):
        now = started + timedelta(days=days)
        document = make_document(matrix, planned, [Record(case.id, "fail", "run", job=job_of(case))], now=now)
        [lane] = [lane.history for lane in document.lanes if lane.id == lane_of_case]
        assert (lane.last_result, lane.last_ran, lane.silent_since) == (started, started, None)
        found = [(one.days, one.gone) for one in document.silent if one.lane == lane_of_case]
        assert found == ([(days, True)] if is_silent else [])
        assert ("1 lane silent" in of_document(document).message) == is_silent
        assert (f"(last result 2026-01-01, {days}.0 days ago)" in summary(document, None)) == is_silent


@pytest.mark.parametrize("started", first_are_quick(1, ["", "soon", "2099-01-01T00:00:00Z"]))
def test_a_job_without_a_true_start_shows_no_sign_of_life(matrix, started):
    planned = few_cells(plan(matrix, "quick"))
    case = next(case for case in planned.cases if case.cell.action == "run")
    record = Record(case.id, "fail", "run", job={**job_of(case), "started": started})
    document = make_document(matrix, planned, [record])
    [lane] = [lane.history for lane in document.lanes if lane.id == lane_id(case.id)]
    assert (lane.last_result, lane.last_ran) == (None, None)
    assert lane_id(case.id) in {one.lane for one in document.silent}


def test_history_is_read_back_and_a_broken_one_is_said_and_no_reason_to_stop(tmp_path):
    lanes = {LANE: LaneHistory(last_result=NOW, message="ok", color=GREEN)}
    (tmp_path / history.FILE).write_text(history.to_json(lanes, NOW))
    assert history.read(tmp_path).lanes == lanes
    (tmp_path / history.FILE).write_text(json.dumps({"schema_version": 1, "lanes": {LANE: {"color": "red; x"}}}))
    broken = history.read(tmp_path)
    assert broken.lanes == {}
    assert "history.json" in broken.problems[0]
    with pytest.raises(UserError, match="there is no such folder"):
        history.read(tmp_path / "nowhere")
